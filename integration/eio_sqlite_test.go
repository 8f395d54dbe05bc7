package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// unwell is a database in a file, of whose system calls one fails at a time.
type unwell struct {
	*trial

	points  map[string]int
	stuck   int           // processes that had to close the file, because a lock has stayed
	longest time.Duration // attempt
	beside  bystander
}

// failSQLite has system calls fail that touch the files of a database.
func failSQLite(t *testing.T, store, journal string) {
	start := time.Now()
	g := sqliteTestDB(t, store+" "+journal, journal)
	g.Kind = store
	busy := 100
	if store == harness.Group {
		busy = 1000 // its least
	}
	g.DSN = strings.Replace(g.DSN, "busy_timeout(30000)", fmt.Sprintf("busy_timeout(%d)", busy), 1)
	u := &unwell{trial: &trial{g: g}, points: map[string]int{}}
	for _, call := range append([]string{"openat", "pread64"}, syscalls...) {
		for n := 1; u.spoil(t, call, n, nil); n += step(call) {
			u.points[call]++
			testenv.Count("errors of the disk", 1)
		}
	}
	// A neighbour would notice if two had one lock.
	quiet := u.points["fcntl"]
	for n := 1; n <= quiet; n++ {
		if u.spoil(t, "fcntl", n, &u.beside) {
			u.points["fcntl beside a neighbour"]++
		}
	}
	var sound string
	if err := u.g.db.QueryRowContext(t.Context(), "pragma integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Errorf("the file: %s, %v", sound, err)
	}
	testenv.Reportf(t, "%s: %v %v; the longest attempt took %v, %d processes had to close the file, neighbours: %v; in %v", g.name, u, u.points,
		u.longest.Round(time.Millisecond), u.stuck, &u.beside, time.Since(start).Round(time.Millisecond))
	if u.points["pwrite64"]+u.points["write"] == 0 || u.points["fsync"]+u.points["fdatasync"] == 0 || quiet < 10 || u.refused == 0 || u.done == 0 {
		t.Errorf("vacuous. %s", rerun(t))
	}
	if u.points["fcntl beside a neighbour"] < quiet/2 || u.beside.done == 0 {
		t.Errorf("vacuous: no neighbour. %s", rerun(t))
	}
	if (u.stuck > 0) != (journal == "WAL") { // as docs/limits.md has it
		t.Errorf("in %d processes a lock has stayed. %s", u.stuck, rerun(t))
	}
}

// spoil has a child perform an operation, and one call of it fail.
func (u *unwell) spoil(t *testing.T, call string, n int, neighbour *bystander) (hit bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hit, err := u.spoiled(ctx, t, call, n, neighbour)
	if err != nil {
		t.Fatalf("EIO at %s %d, a neighbour: %t: %v. %s", call, n, neighbour != nil, err, rerun(t))
	}
	if hit {
		u.hits++
	}
	return hit
}

func (u *unwell) spoiled(ctx context.Context, t *testing.T, call string, n int, neighbour *bystander) (hit bool, err error) {
	t.Helper()
	key, trace := once.NewKey(), filepath.Join(t.TempDir(), "trace")
	file, _, _ := strings.Cut(strings.TrimPrefix(u.g.DSN, "file:"), "?")
	tracer := []string{"strace", "--follow-forks", "--quiet=all", "--output=" + trace, "--trace=" + call,
		fmt.Sprintf("--inject=%s:error=EIO:when=%d", call, n)}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		tracer = append(tracer, "--trace-path="+file+suffix)
	}
	met := neighbour.lives(ctx, u.g)
	out, killed, err := plan{Store: u.g.Kind, DSN: u.g.DSN, Flow: flowRetry, Key: key, Attempt: byVictim}.carryOut(t, tracer...)
	if err = errors.Join(err, met()); err != nil || killed {
		return false, fmt.Errorf("the child (killed: %t): %w", killed, err)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		return false, err
	}
	hit = strings.Contains(string(text), "(INJECTED)")
	var said sufferer
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		return hit, err
	}
	if err := u.judge(&said, string(text), neighbour != nil); err != nil {
		return hit, err
	}
	successor, err := stores[u.g.Kind](ctx, setup{dsn: u.g.DSN, conns: 2})
	if err != nil {
		return hit, err
	}
	defer successor.Close()
	for i, key := range said.Keys {
		again, _, e := successor.Do(ctx, operation(key), work{key: key, attempt: bySuccessor})
		if e == nil && again != said.Got[i] {
			e = fmt.Errorf("told %q, the answer was %v, the repeated one is %v", said.Told, said.Got[i], again)
		}
		err = errors.Join(err, e, u.g.truthful(ctx, &client{op: operation(key), denied: said.Denied}, said.Got[i]))
	}
	return hit, err
}

// longestAttempt is what an attempt may take on a file of which a lock has stayed: SQLite
// tries for ten seconds to begin to read, whatever busy_timeout and contexts say.
const longestAttempt = 30 * time.Second

// judge says what should not have been said.
func (u *unwell) judge(said *sufferer, trace string, crowded bool) error {
	switch {
	case said.Renewed > 0 && !crowded:
		u.stuck++
	case said.Opened > 1, len(said.Denied) > 0:
		u.refused++
	case said.Doubted > 0:
		u.doubted++
	default:
		u.done++
	}
	u.longest = max(u.longest, said.Longest)
	struck := strings.TrimSpace(line(trace, "(INJECTED)"))
	lockStays := said.Renewed == 1 && strings.Contains(struck, "F_UNLCK")
	switch {
	case said.Longest > longestAttempt:
		return fmt.Errorf("an attempt has taken %v: %s", said.Longest, said.Told)
	case said.Renewed > 0 && !crowded && !lockStays:
		return fmt.Errorf("after %s asking again has not helped: %s", struck, said.Told)
	}
	return nil
}

// line is the first one that contains what.
func line(text, what string) string {
	for l := range strings.Lines(text) {
		if strings.Contains(l, what) {
			return l
		}
	}
	return ""
}

// bystander is a neighbour who uses the same file all the time.
type bystander struct{ done, refused int }

func (b *bystander) String() string { return fmt.Sprintf("%d done, %d refused", b.done, b.refused) }

// lives begins to use the file. What it returns ends that, and tells whether all was well.
func (b *bystander) lives(ctx context.Context, g *testDB) (ended func() error) {
	if b == nil {
		return func() error { return nil }
	}
	s, err := stores[g.Kind](ctx, setup{dsn: g.DSN, conns: 2})
	if err != nil {
		return func() error { return err }
	}
	over := make(chan struct{})
	var living sync.WaitGroup
	var later []func() error // who only looks, too, may have to wait for a lock that has stayed
	living.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			c := &client{s: s, name: "neighbour", op: operation(once.NewKey())}
			began := time.Now()
			got, told := c.ask(ctx)
			switch took := time.Since(began); {
			case told == nil:
				b.done++
				later = append(later, func() error { return g.truthful(ctx, c, got) })
			case once.EffectOf(told) != once.EffectNotApplied, took > longestAttempt:
				err = errors.Join(err, fmt.Errorf("a neighbour was told after %v: %w", took, told))
			default:
				b.refused++
			}
		}
	})
	return func() error {
		close(over)
		living.Wait()
		s.Close()
		for i := 0; i < len(later); i += 1 + len(later)/500 { // while others wait for a lock there are thousands
			err = errors.Join(err, later[i]())
		}
		return err
	}
}
