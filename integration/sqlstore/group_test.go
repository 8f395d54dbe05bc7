package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// TestGroupSharesOneCommit: those who wait for each other flush once, and one who is
// alone does not wait.
func TestGroupSharesOneCommit(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		began := time.Now()
		alone := newMember("alone")
		c.do(alone)
		c.executed(alone)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("alone, but it has waited for %v", waited)
		}
		if got := c.spy.take(begin, joins, commits); !slices.Equal(got, []int{1, 0, 1}) {
			t.Errorf("alone: begun, joined, committed: %v", got)
		}
		var all []*member
		for i := range 20 {
			all = append(all, newMember(fmt.Sprint("member-", i)))
		}
		c.together(all...)
		c.executed(all...)
		c.ran(1, all...)
		if got := c.spy.take(begin, joins, commits); !slices.Equal(got, []int{1, 19, 1}) {
			t.Errorf("20 at a time: begun, joined, committed: %v", got)
		}
	})
}

// TestGroupWithDeadlines: callers whose context ends before busy_timeout would share no
// less, and the connection waits for others as long as before.
func TestGroupWithDeadlines(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.db.SetMaxOpenConns(7)
		c.db.SetMaxIdleConns(7)
		all := neighbours("a", "b", "c", "d", "e")
		for _, m := range all {
			m.ctx = ctx //nolint:fatcontext // each its own member
		}
		c.together(all...)
		c.executed(all...)
		if got := c.spy.take(begin, joins, commits, "pragma busy_timeout = 1000"); !slices.Equal(got, []int{1, 4, 1, 1}) {
			t.Errorf("begun, joined, committed, hurried: %v", got)
		}
		for range 3 {
			m := newMember(once.NewKey())
			m.ctx = ctx //nolint:fatcontext // each its own member
			c.do(m)
			c.executed(m)
		}
		for range 7 {
			conn, err := c.db.Conn(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			var ms int
			if err := conn.QueryRowContext(context.Background(), "pragma busy_timeout").Scan(&ms); err != nil || ms != 5000 {
				t.Errorf("busy_timeout left behind: %d, %v", ms, err)
			}
		}
	})
}

// TestGroupEnds: it takes no more than so many, and none when it has become old.
func TestGroupEnds(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		var all []*member
		for i := range 130 {
			all = append(all, newMember(fmt.Sprint("member-", i)))
		}
		c.together(all...)
		c.executed(all...)
		if got := c.spy.take(begin, joins, commits); !slices.Equal(got, []int{2, 128, 2}) {
			t.Errorf("130 at a time: begun, joined, committed: %v", got)
		}
		slow := neighbours("slow-1", "slow-2", "slow-3")
		for _, m := range slow {
			m.work = func(context.Context, *sql.Tx, int) (string, error) {
				pass(20 * time.Millisecond)
				return "", nil
			}
		}
		c.together(slow...)
		c.executed(slow...)
		c.ran(1, slow...)
		if got := c.spy.take(begin, joins, commits); !slices.Equal(got, []int{3, 0, 3}) {
			t.Errorf("slow ones: begun, joined, committed: %v", got)
		}
	})
}

// TestGroupAnswersAfterTheCommit: no caller is answered before the COMMIT that
// makes it true.
func TestGroupAnswersAfterTheCommit(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		gate, reached := make(chan struct{}), false
		c.spy.bend(func(text string) error {
			if text == commits {
				reached = true
				<-gate
			}
			return nil
		}, nil)
		done, last := newMember("key"), newMember("last")
		replay, mismatch, failure, reader := newMember("key"), newMember("key"), newMember("failure"), newMember("reader")
		mismatch.op.Fingerprint = once.FingerprintOf([]byte("something else"))
		failure.work = func(context.Context, *sql.Tx, int) (string, error) {
			return "", &once.Failure{Code: "declined"}
		}
		reader.work = func(context.Context, *sql.Tx, int) (string, error) { return "", errBusiness }
		all := []*member{done, replay, mismatch, failure, reader, last}
		wait := c.start(all...)
		synctest.Wait()
		if !reached {
			t.Fatal("vacuous: there is no COMMIT")
		}
		for i, m := range all {
			if m.ended {
				t.Errorf("%d (%s) was answered before the COMMIT: %v", i, m.key, m.err)
			}
		}
		close(gate)
		wait()
		c.executed(done, last)
		var declined *once.Failure
		if replay.err != nil || !replay.again || replay.value != done.value {
			t.Errorf("the replay: %+v", replay)
		}
		if once.CodeOf(mismatch.err) != once.CodeMismatch || !errors.As(failure.err, &declined) || once.CodeOf(reader.err) != once.CodeFailed {
			t.Errorf("mismatch: %v; failure: %v; reader: %v", mismatch.err, failure.err, reader.err)
		}
		c.ran(0, replay, mismatch)
	})
}

// TestGroupHoldsNobodyForEver: one that hangs is rolled back, early if others wait for
// its COMMIT, and then gets its time alone.
func TestGroupHoldsNobodyForEver(t *testing.T) {
	hangs := func(until *int) func(context.Context, *sql.Tx, int) (string, error) {
		return func(ctx context.Context, tx *sql.Tx, run int) (string, error) {
			if run <= *until {
				pass(time.Hour)
			} else {
				pass(time.Second) // too long for company
			}
			_, err := tx.ExecContext(ctx, "insert into charge values ('late')")
			return "late", err
		}
	}
	inCrowd(t, func(c *crowd) {
		once1 := 1
		bad := newMember("bad")
		bad.work = hangs(&once1)
		around := neighbours("before", "after-1", "after-2")
		c.together(around[0], bad, around[1], around[2])
		for _, m := range around {
			if m.took > 200*time.Millisecond {
				t.Errorf("%s has waited for %v", m.key, m.took)
			}
		}
		c.executed(around...)
		c.ran(1, around...)
		c.executed(bad)
		c.ran(2, bad)

		twice := 2
		worse := newMember("worse")
		worse.work = hangs(&twice)
		after := neighbours("after-3", "after-4")
		c.together(slices.Concat([]*member{worse}, after)...)
		for _, m := range after {
			const half = 2500 * time.Millisecond
			if m.took < half || m.took > half+half/10 { // with a pause for other processes
				t.Errorf("%s has waited for %v, want half of busy_timeout", m.key, m.took)
			}
		}
		c.executed(after...)
		if once.CodeOf(worse.err) != once.CodeUnavailable || once.EffectOf(worse.err) != once.EffectNotApplied || !strings.Contains(worse.err.Error(), "Try:") {
			t.Error(worse.err)
		}
		c.holds("worse", 0)
	})
}

// TestGroupGivesUpWaiting: who waits for its turn waits no longer than its context and
// its bound, and leaves no gap.
func TestGroupGivesUpWaiting(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		slow, gone, bound, last := newMember("slow"), newMember("gone"), newMember("bound"), newMember("last")
		slow.work = func(context.Context, *sql.Tx, int) (string, error) {
			pass(time.Second)
			return "", nil
		}
		gone.ctx = ctx
		bound.op.Timeouts.Lock = 100 * time.Millisecond
		c.together(slow, gone, bound, last)
		if gone.took != 50*time.Millisecond || bound.took != 100*time.Millisecond {
			t.Errorf("they have waited for %v and %v", gone.took, bound.took)
		}
		c.executed(slow, last)
		for _, m := range []*member{gone, bound} {
			if once.CodeOf(m.err) != once.CodeUnavailable || once.EffectOf(m.err) != once.EffectNotApplied || m.runs != 0 {
				t.Errorf("%s: ran %d times, %v", m.key, m.runs, m.err)
			}
			c.holds(m.key, 0)
		}
	})
}

// TestGroupIsStuck: who waits for a COMMIT that does not end is told that he does not
// know, and later the truth.
func TestGroupIsStuck(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		gate, stuck := make(chan struct{}), true
		c.spy.bend(func(text string) error {
			if text == commits && stuck {
				stuck = false
				<-gate
			}
			return nil
		}, nil)
		time.AfterFunc(time.Minute, func() { close(gate) })
		all := neighbours("a", "b", "c")
		c.together(all...)
		for _, m := range all[:2] { // the last one commits
			if once.EffectOf(m.err) != once.EffectInDoubt || m.took > 30*time.Second {
				t.Errorf("%s: after %v: %v", m.key, m.took, m.err)
			}
		}
		c.executed(all[2])
		for _, m := range neighbours("a", "b") {
			c.do(m)
			if m.err != nil || !m.again {
				t.Errorf("%s: asked again: %+v", m.key, m)
			}
			c.holds(m.key, 1)
		}
	})
}

// TestGroupStatementsStayPrepared: and still each is run as if it were by itself.
func TestGroupStatementsStayPrepared(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.exec("create table counted (n integer)")
		c.exec("insert into counted values (1), (2), (3)")
		const pairs = "select n from counted where n > ?"
		for range 3 {
			m := newMember(once.NewKey())
			m.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
				found, err := numbers(ctx, tx, pairs, 0, func(n int) error { // the same text while it is read
					_, err := numbers(ctx, tx, pairs, n, nil)
					return err
				})
				if err != nil || !slices.Equal(found, []int{1, 2, 3}) {
					t.Errorf("nested: %v, %v", found, err)
				}
				for n := range 100 { // more than are kept
					if got, err := numbers(ctx, tx, fmt.Sprintf("select %d", n), 0, nil); err != nil || !slices.Equal(got, []int{n}) {
						t.Errorf("select %d: %v, %v", n, got, err)
					}
				}
				for _, text := range []string{"create table new (a integer)", "insert into new values (1)", "alter table new add b integer"} {
					if _, err := tx.ExecContext(ctx, text); err != nil {
						return "", err
					}
				}
				rows, err := tx.QueryContext(ctx, "select * from new")
				if err != nil {
					return "", err
				}
				columns, err := rows.Columns()
				if len(columns) != 2 {
					t.Errorf("columns %v", columns)
				}
				if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
					return "", err
				}
				_, err = tx.ExecContext(ctx, "drop table new")
				return "", err
			}
			c.do(m)
			c.executed(m)
		}
	})
}

func numbers(ctx context.Context, tx *sql.Tx, text string, above int, each func(int) error) (found []int, err error) {
	var args []any
	if strings.Contains(text, "?") {
		args = append(args, above)
	}
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		if each != nil {
			if err := each(n); err != nil {
				return nil, err
			}
		}
		found = append(found, n)
	}
	return found, rows.Err()
}

// TestGroupNeedsSQLite: and a driver that tells of violated constraints.
func TestGroupNeedsSQLite(t *testing.T) {
	ctx, cfg := t.Context(), sqlstore.Config{GroupCommit: true}
	postgres, err := sqlstore.Open("pgx", testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = postgres.Close() }()
	if _, err := sqlstore.New(ctx, postgres, cfg); err == nil || !strings.Contains(err.Error(), "Try: leave GroupCommit out") {
		t.Error(err)
	}
	mute := sqlstore.OpenDB(sqlplane.SQLite, muteConnector{&spy{dsn: "file:" + filepath.Join(t.TempDir(), "mute.db") + "?_pragma=busy_timeout(5000)"}})
	defer func() { _ = mute.Close() }()
	if _, err := sqlstore.New(ctx, mute, cfg); err == nil || !strings.Contains(err.Error(), "Try: modernc.org/sqlite") {
		t.Error(err)
	}
	if err := sqlstore.Migrate(ctx, mute); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.New(ctx, mute, sqlstore.Config{}); err != nil {
		t.Error("without GroupCommit:", err)
	}
	hasty := sqlstore.OpenDB(sqlplane.SQLite, &spy{dsn: "file:" + filepath.Join(t.TempDir(), "hasty.db") + "?_pragma=busy_timeout(500)"})
	defer func() { _ = hasty.Close() }()
	if _, err := sqlstore.New(ctx, hasty, cfg); err == nil || !strings.Contains(err.Error(), "Try: _pragma=busy_timeout") {
		t.Error(err)
	}
}
