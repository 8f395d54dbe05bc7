package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
)

// sufferer is what a process has to say that has insisted on an operation while
// something happened to it.
type sufferer struct {
	Got     answer
	Denied  []string
	Doubted int
	Opened  int // times that it took to open the store
	Told    string
}

// suffer asks until there is an answer, and prints what it was told on the way.
func suffer(ctx context.Context, p plan) (err error) {
	var said sufferer
	var s system
	for ok := false; !ok && ctx.Err() == nil; ok = err == nil {
		said.Opened++
		if s, err = stores[p.Store](ctx, setup{dsn: p.DSN, conns: 1}); err != nil {
			said.Told = err.Error()
		}
	}
	if err != nil {
		return err
	}
	c := &client{s: s, name: p.Attempt, op: operation(p.Key)}
	var told error
	if said.Got, told = c.ask(ctx); told != nil {
		said.Told = told.Error()
		if said.Got, err = c.insist(ctx); err != nil {
			return errors.Join(told, err)
		}
	}
	s.Close()
	said.Denied, said.Doubted = c.denied, c.doubted
	return json.NewEncoder(os.Stdout).Encode(said)
}

// failSQLite has system calls fail that touch the files of a database.
func failSQLite(t *testing.T, journal string) {
	start := time.Now()
	r := &trial{g: sqliteGround(t, sqliteName, journal)}
	points := map[string]int{}
	for _, call := range append([]string{"openat", "pread64"}, syscalls...) {
		if call == "fcntl" {
			continue // no I/O: a lock that cannot be given back is held for as long as its process lives
		}
		for n := 1; ; n += step(call) {
			hit, err := r.spoil(t, call, n)
			if err != nil {
				t.Fatalf("EIO at %s %d: %v. %s", call, n, err, rerun(t))
			}
			if !hit {
				break
			}
			r.hits++
			points[call]++
		}
	}
	t.Logf("%s %s: %v %v; in %v", r.g.store, journal, r, points, time.Since(start).Round(time.Millisecond))
	if points["pwrite64"]+points["write"] == 0 || points["fsync"]+points["fdatasync"] == 0 || r.refused == 0 || r.done == 0 {
		t.Errorf("vacuous. %s", rerun(t))
	}
}

// spoil has a child perform an operation, and one call of it fail.
func (r *trial) spoil(t *testing.T, call string, n int) (hit bool, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key, trace := once.NewKey(), filepath.Join(t.TempDir(), "trace")
	file, _, _ := strings.Cut(strings.TrimPrefix(r.g.dsn, "file:"), "?")
	tracer := []string{"strace", "--follow-forks", "--quiet=all", "--output=" + trace, "--trace=" + call,
		fmt.Sprintf("--inject=%s:error=EIO:when=%d", call, n)}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		tracer = append(tracer, "--trace-path="+file+suffix)
	}
	out, killed, err := plan{Store: r.g.store, DSN: r.g.dsn, Flow: flowSuffer, Key: key, Attempt: byVictim}.carryOut(ctx, tracer...)
	if err != nil || killed {
		return false, fmt.Errorf("the child (killed: %t): %w", killed, err)
	}
	var said sufferer
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		return false, err
	}
	switch {
	case said.Opened > 1:
		r.refused++ // to open it
	case len(said.Denied) > 0:
		r.refused++
	case said.Doubted > 0:
		r.doubted++
	default:
		r.done++
	}
	heir := r.g.open(t, setup{conns: 1})
	defer heir.Close()
	again, _, err := heir.Do(ctx, operation(key), work{key: key, attempt: byHeir})
	if err == nil && again != said.Got {
		err = fmt.Errorf("told %q, the answer was %v, the repeated one is %v", said.Told, said.Got, again)
	}
	c := &client{op: operation(key), denied: said.Denied}
	text, e := os.ReadFile(trace)
	return bytes.Contains(text, []byte("(INJECTED)")), errors.Join(err, e, r.g.truthful(ctx, c, said.Got))
}
