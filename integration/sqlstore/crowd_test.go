package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// crowd is a SQLite database and those who use it at the same time.
type crowd struct {
	t   *testing.T
	db  *sql.DB
	s   *sqlstore.Store
	spy *spy

	waiting func(others int) // returns when so many wait for their turn
}

// pass lets time pass, which in a bubble takes no real time.
func pass(d time.Duration) { <-time.After(d) }

// The guard's own statements, which tell what a group was.
const (
	begin   = "BEGIN IMMEDIATE"
	joins   = "SAVEPOINT once_part"
	undoes  = "ROLLBACK TO once_part"
	commits = "COMMIT"
)

// inCrowd runs a test where time stands still unless everybody waits.
func inCrowd(t *testing.T, test func(*crowd)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		newCrowd(t, dir, sqlstore.Config{GroupCommit: true}, func(int) { synctest.Wait() }, test)
	})
}

// inLine is inCrowd without groups.
func inLine(t *testing.T, test func(*crowd)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { newCrowd(t, dir, sqlstore.Config{}, func(int) { synctest.Wait() }, test) })
}

// inRealCrowd is inCrowd for statements that do not end: for them no time would pass.
func inRealCrowd(t *testing.T, test func(*crowd)) {
	t.Helper()
	newCrowd(t, t.TempDir(), sqlstore.Config{GroupCommit: true}, func(others int) {
		stacks, until := make([]byte, 1<<20), time.Now().Add(time.Minute)
		for {
			got := string(stacks[:runtime.Stack(stacks, true)])
			if strings.Count(got, "sqlitegroup.(*line).wait(") == others {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%d do not wait for their turn:\n%s", others, got)
			}
			runtime.Gosched()
		}
	}, test)
}

func newCrowd(t *testing.T, dir string, cfg sqlstore.Config, waiting func(int), test func(*crowd)) {
	t.Helper()
	ctx := context.Background()
	c := &crowd{t: t, waiting: waiting, spy: &spy{dsn: "file:" + filepath.Join(dir, "crowd.db") +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"}}
	c.db = sqlstore.OpenDB(sqlplane.SQLite, c.spy)
	defer func() { _ = c.db.Close() }()
	if err := sqlstore.Migrate(ctx, c.db); err != nil {
		t.Fatal(err)
	}
	for statement := range strings.SplitSeq(schema, ";") {
		if _, err := c.db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.s, err = sqlstore.New(ctx, c.db, cfg); err != nil {
		t.Fatal(err)
	}
	c.spy.take()
	test(c)
}

// member is one call of once.Do, by an engine of its own: nothing coalesces.
type member struct {
	key    string
	op     once.Operation
	ctx    context.Context //nolint:containedctx // nil: the background
	config once.Config
	work   func(ctx context.Context, tx *sql.Tx, run int) (string, error) // after its effect

	panics bool // it does so, and no more comes of it

	runs  int
	value string
	again bool // it was a replay
	err   error
	ended bool
	took  time.Duration
}

const insertCharge = "insert into charge values (?)" // the effect of a member

func newMember(key string) *member {
	return &member{key: key, op: once.Operation{Scope: "crowd", Key: key, Fingerprint: once.FingerprintOf([]byte(key))}}
}

func neighbours(keys ...string) (list []*member) {
	for _, key := range keys {
		list = append(list, newMember(key))
	}
	return list
}

func (c *crowd) do(m *member) {
	ctx, began := m.ctx, time.Now()
	if ctx == nil {
		ctx = context.Background()
	}
	if m.panics {
		defer func() { m.err = fmt.Errorf("panic: %v", recover()) }()
	}
	r, err := once.Do(ctx, once.New(c.s, m.config), m.op, func(ctx context.Context, tx *sql.Tx) (string, error) {
		m.runs++
		if _, err := tx.ExecContext(ctx, insertCharge, m.key); err != nil {
			return "", err
		}
		if m.work != nil {
			return m.work(ctx, tx, m.runs)
		}
		return m.key, nil
	})
	m.value, m.again, m.err, m.ended, m.took = r.Value, r.Replayed, err, true, time.Since(began)
}

// together has members follow each other in this order: the first one lets none go on
// before all have come.
func (c *crowd) together(members ...*member) {
	c.t.Helper()
	c.start(members...)()
}

// start is together, and returns when all have begun. What it returns waits for the end.
func (c *crowd) start(members ...*member) (wait func()) {
	c.t.Helper()
	come, entered := make(chan struct{}), make(chan struct{})
	first, work := members[0], members[0].work
	first.work = func(ctx context.Context, tx *sql.Tx, run int) (string, error) {
		if run == 1 {
			close(entered)
		}
		<-come
		if work != nil {
			return work(ctx, tx, run)
		}
		return first.key, nil
	}
	var all sync.WaitGroup
	for others, m := range members {
		all.Go(func() { c.do(m) })
		<-entered
		c.waiting(others)
	}
	close(come)
	return all.Wait
}

func (c *crowd) exec(text string) {
	c.t.Helper()
	if _, err := c.db.ExecContext(context.Background(), text); err != nil {
		c.t.Fatal(err)
	}
}

// executed fails unless each member was executed, once in the end.
func (c *crowd) executed(members ...*member) {
	c.t.Helper()
	for _, m := range members {
		if m.err != nil || m.again {
			c.t.Errorf("%s: replayed %v, %v", m.key, m.again, m.err)
		}
		c.holds(m.key, 1)
	}
}

// holds fails unless key has so many effects and records.
func (c *crowd) holds(key string, want int) {
	c.t.Helper()
	effects := count(c.t, c.db, "select count(*) from charge where id = $1", key)
	records := count(c.t, c.db, "select count(*) from once_operation where key = $1", key)
	if effects != want || records != want {
		c.t.Errorf("%s: %d effects and %d records, want %d", key, effects, records, want)
	}
}

// ran fails unless each of them ran so often.
func (c *crowd) ran(want int, members ...*member) {
	c.t.Helper()
	for _, m := range members {
		if m.runs != want {
			c.t.Errorf("%s ran %d times, want %d", m.key, m.runs, want)
		}
	}
}
