package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"
)

// TestGroupSharesOneCommit: those who wait for each other flush once, and one who is
// alone waits for nobody.
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
				time.Sleep(20 * time.Millisecond)
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

var errBusiness = errors.New("not today")

// misdeeds of a member, between neighbours.
var misdeeds = []struct {
	name    string
	code    once.Code // "": it succeeds
	commits int       // of the whole group
	runs    int       // of its neighbours before it
	ownRuns int
	work    func(ctx context.Context, tx *sql.Tx) error
}{
	{"fails", once.CodeFailed, 1, 1, 1, func(context.Context, *sql.Tx) error { return errBusiness }},
	{"swallows an error", once.CodeAborted, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "insert into charge values ('bad')")
		return nil
	}},
	{"commits raw", once.CodeAborted, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "commit")
		return nil
	}},
	{"rolls back raw", once.CodeAborted, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "rollback")
		return nil
	}},
	{"releases the group's savepoint", once.CodeAborted, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "release [ONCE_PART]")
		return nil
	}},
	{"hides the group's savepoint", once.CodeAborted, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "savepoint once_part")
		return nil
	}},
	{"calls Commit", once.CodeMisuse, 1, 1, 1, func(_ context.Context, tx *sql.Tx) error {
		_ = tx.Commit()
		return nil
	}},
	{"calls Rollback", once.CodeMisuse, 1, 1, 1, func(_ context.Context, tx *sql.Tx) error {
		_ = tx.Rollback()
		return nil
	}},
	{"leaves a savepoint", "", 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "savepoint mine")
		return err
	}},
	{"leaves rows open", "", 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "select id from charge") //nolint:rowserrcheck,sqlclosecheck // its misdeed
		if err == nil {
			rows.Next()
		}
		return err
	}},
	{"leaves rows open and fails", once.CodeFailed, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "select id from charge") //nolint:rowserrcheck,sqlclosecheck // its misdeed
		if err == nil {
			rows.Next()
		}
		return errors.Join(errBusiness, err)
	}},
	{"heals by a savepoint", "", 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "savepoint mine"); err != nil {
			return err
		}
		_, _ = tx.ExecContext(ctx, "insert into charge values ('bad')")
		_, err := tx.ExecContext(ctx, "rollback to mine")
		return err
	}},
	{"violates a deferred constraint", once.CodeFailed, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into child values (1, 77)")
		return err
	}},
	{"defers a constraint and violates it", once.CodeFailed, 2, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		for _, text := range []string{"pragma defer_foreign_keys = 1", "insert into strict values (77)"} {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	}},
	{"defers a constraint and satisfies it", "", 2, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		for _, text := range []string{"pragma defer_foreign_keys = 1", "insert into strict values (78)", "insert into parent values (78)"} {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	}},
	{"rolls everything back", once.CodeFailed, 3, 2, 2, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert or rollback into charge values ('bad')")
		return err
	}},
	{"rolls everything back and hides it", once.CodeAborted, 3, 2, 2, func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "insert or rollback into charge values ('bad')")
		return nil
	}},
}

// TestGroupMembersHurtNobody: whatever one does, it is told the truth, its neighbours
// are executed, and a retry of it is, too.
func TestGroupMembersHurtNobody(t *testing.T) {
	for _, m := range misdeeds {
		for _, place := range []string{"within", "first"} {
			t.Run(m.name+"/"+place, func(t *testing.T) {
				inCrowd(t, func(c *crowd) {
					c.exec("create table strict (parent integer references parent(id))")
					bad := newMember("bad")
					bad.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) { return "bad", m.work(ctx, tx) }
					before, after := neighbours("before-1", "before-2"), neighbours("after-1", "after-2")
					if place == "first" {
						before, after = nil, slices.Concat(before, after)
					}
					c.spy.take()
					c.together(slices.Concat(before, []*member{bad}, after)...)
					ran := c.spy.take(commits)[0]
					if once.CodeOf(bad.err) != m.code || bad.err != nil && once.EffectOf(bad.err) != once.NotApplied {
						t.Errorf("%v, want %q and not applied", bad.err, m.code)
					}
					c.executed(before...)
					c.executed(after...)
					c.ran(1, after...)
					if place == "within" {
						c.ran(m.runs, before...)
						c.ran(m.ownRuns, bad)
						if ran != m.commits {
							t.Errorf("%d commits, want %d", ran, m.commits)
						}
					}
					if m.code != "" {
						c.holds("bad", 0)
						retry := newMember("bad")
						c.do(retry)
						bad = retry
					}
					c.executed(bad)
					if orphans := count(t, c.db, "select count(*) from pragma_foreign_key_check"); orphans != 0 {
						t.Errorf("%d orphans", orphans)
					}
				})
			})
		}
	}
}

func (c *crowd) exec(text string) {
	c.t.Helper()
	if _, err := c.db.ExecContext(context.Background(), text); err != nil {
		c.t.Fatal(err)
	}
}

// TestGroupPanics: a panic or a Goexit ends a turn, and no other.
func TestGroupPanics(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		for name, end := range map[string]func(){"panic": func() { panic("on purpose") }, "goexit": runtime.Goexit} {
			bad := newMember("bad-" + name)
			bad.work = func(context.Context, *sql.Tx, int) (string, error) { end(); return "", nil }
			around := neighbours("before-"+name, "after-"+name)
			come := make(chan struct{})
			around[0].work = func(context.Context, *sql.Tx, int) (string, error) { <-come; return "", nil }
			go c.do(around[0])
			synctest.Wait()
			panicked := make(chan any)
			go func() {
				defer func() { panicked <- recover() }()
				c.do(bad)
			}()
			synctest.Wait()
			go c.do(around[1])
			synctest.Wait()
			close(come)
			if got := <-panicked; (got != nil) != (name == "panic") {
				t.Errorf("%s: recovered %v", name, got)
			}
			synctest.Wait()
			c.executed(around...)
			c.holds(bad.key, 0)
		}
		if got := c.spy.take(joins, undoes); !slices.Equal(got, []int{4, 2}) {
			t.Errorf("vacuous: joined, undone: %v", got)
		}
	})
}

// TestGroupConstraintsDoNotMix: what a later member writes does not heal what an earlier
// one has violated.
func TestGroupConstraintsDoNotMix(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		first, orphan, parent := newMember("first"), newMember("orphan"), newMember("parent")
		orphan.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
			_, err := tx.ExecContext(ctx, "insert into child values (1, 5)")
			return "", err
		}
		parent.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
			_, err := tx.ExecContext(ctx, "insert into parent values (5)")
			return "", err
		}
		c.together(first, orphan, parent)
		if got := c.spy.take(joins, commits); !slices.Equal(got, []int{2, 1}) {
			t.Fatalf("vacuous: joined, committed: %v", got)
		}
		c.executed(first, parent)
		if once.CodeOf(orphan.err) != once.CodeFailed || !strings.Contains(orphan.err.Error(), "FOREIGN KEY") {
			t.Error(orphan.err)
		}
		c.holds("orphan", 0)
	})
}

// TestGroupAnswersAfterTheCommit: nothing that anybody is told precedes the COMMIT that
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
			t.Fatal("vacuous: nobody commits")
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

// TestGroupCommitFails: those whose COMMIT has failed run again, each alone.
func TestGroupCommitFails(t *testing.T) {
	const full, busy, interrupt, ioerr = codeError(13), codeError(5), codeError(9), codeError(10)
	for _, c := range []struct {
		name          string
		before, after error
		runs          int // of each
		commits       int // that reached the database
	}{
		{"full", full, nil, 2, 5},
		{"busy", busy, nil, 2, 5},
		{"interrupted", interrupt, nil, 2, 5},
		{"in doubt, not applied", ioerr, nil, 2, 5},
		{"in doubt, applied", nil, ioerr, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inCrowd(t, func(w *crowd) {
				w.spy.bend(fails(c.before), fails(c.after))
				all := neighbours("a", "b", "c", "d", "e")
				w.together(all...)
				w.executed(all...)
				w.ran(c.runs, all...)
				got := w.spy.take(joins, commits)
				if got[0] < 4 || got[1] < c.commits { // to settle takes a COMMIT, too
					t.Errorf("vacuous: joined, committed: %v", got)
				}
				again := neighbours("f", "g")
				w.together(again...)
				w.executed(again...)
				if got := w.spy.take(joins, commits); !slices.Equal(got, []int{1, 1}) {
					t.Errorf("afterwards: joined, committed: %v", got)
				}
			})
		})
	}
}

// TestGroupThatFailsIsAlone: those whose COMMIT has failed do not meet again, also if
// they could.
func TestGroupThatFailsIsAlone(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		company := false
		c.spy.bend(func(text string) error {
			switch {
			case text == begin:
				company = false
			case text == joins:
				company = true
			case text == commits && company:
				return codeError(13)
			}
			return nil
		}, nil)
		all := neighbours("a", "b", "c", "d", "e")
		for _, m := range all {
			m.work = func(_ context.Context, _ *sql.Tx, run int) (string, error) {
				if run > 1 {
					time.Sleep(6 * time.Millisecond) // the others come, and the group is young
				}
				return "", nil
			}
		}
		c.together(all...)
		c.executed(all...)
		c.ran(2, all...)
		strangers := neighbours("f", "g", "h")
		c.spy.bend(nil, nil)
		c.spy.take()
		c.together(strangers...)
		c.executed(strangers...)
		if got := c.spy.take(joins, commits); !slices.Equal(got, []int{2, 1}) {
			t.Errorf("afterwards: joined, committed: %v", got)
		}
	})
}

func fails(err error) func(string) error {
	if err == nil {
		return nil
	}
	return failing(commits, err)
}

// TestGroupCommitKeepsFailing: everybody is told that nothing was applied, and nothing is.
func TestGroupCommitKeepsFailing(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.spy.bend(func(text string) error {
			if text == commits {
				return codeError(13)
			}
			return nil
		}, nil)
		all := neighbours("a", "b", "c")
		c.together(all...)
		c.spy.bend(nil, nil)
		for _, m := range all {
			if m.err == nil || once.EffectOf(m.err) != once.NotApplied {
				t.Errorf("%s: %v", m.key, m.err)
			}
			c.holds(m.key, 0)
			m.runs = 0
		}
		retries := neighbours("a", "b", "c")
		c.together(retries...)
		c.executed(retries...)
	})
}

// TestGroupPhantoms: a verdict on what was never committed is none.
func TestGroupPhantoms(t *testing.T) {
	for name, verdict := range map[string]error{
		"final":     &once.Failure{Code: "spent"},
		"transient": errBusiness,
	} {
		t.Run(name, func(t *testing.T) {
			inCrowd(t, func(c *crowd) {
				c.spy.bend(failing(commits, codeError(13)), nil)
				spender, judge := newMember("spender"), newMember("judge")
				spender.work = func(_ context.Context, _ *sql.Tx, run int) (string, error) {
					if run > 1 {
						return "", errBusiness // alone, it spends nothing
					}
					return "", nil
				}
				judge.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
					var n int
					if err := tx.QueryRowContext(ctx, "select count(*) from charge where id = 'spender'").Scan(&n); err != nil {
						return "", err
					}
					if n > 0 {
						return "", verdict
					}
					return "granted", nil
				}
				c.together(spender, judge)
				if once.CodeOf(spender.err) != once.CodeFailed {
					t.Error(spender.err)
				}
				c.ran(2, spender, judge)
				c.executed(judge)
			})
		})
	}
}

// TestGroupHoldsNobodyForEver: one that hangs is rolled back, early if others wait for
// its COMMIT, and then gets its time alone.
func TestGroupHoldsNobodyForEver(t *testing.T) {
	hangs := func(until *int) func(context.Context, *sql.Tx, int) (string, error) {
		return func(ctx context.Context, tx *sql.Tx, run int) (string, error) {
			if run <= *until {
				time.Sleep(time.Hour)
			} else {
				time.Sleep(time.Second) // too long for company
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
			if m.took != 2500*time.Millisecond {
				t.Errorf("%s has waited for %v, want half of busy_timeout", m.key, m.took)
			}
		}
		c.executed(after...)
		if once.CodeOf(worse.err) != once.CodeUnavailable || once.EffectOf(worse.err) != once.NotApplied || !strings.Contains(worse.err.Error(), "Try:") {
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
			time.Sleep(time.Second)
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
			if once.CodeOf(m.err) != once.CodeUnavailable || once.EffectOf(m.err) != once.NotApplied || m.runs != 0 {
				t.Errorf("%s: ran %d times, %v", m.key, m.runs, m.err)
			}
			c.holds(m.key, 0)
		}
	})
}

// TestGroupNeedsSQLite: and a driver that tells of violated constraints.
func TestGroupNeedsSQLite(t *testing.T) {
	ctx, cfg := t.Context(), sqlstore.Config{GroupCommit: true}
	postgres, err := sqlstore.Open("pgx", testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = postgres.Close() }()
	if _, err := sqlstore.NewWithConfig(ctx, postgres, cfg); err == nil || !strings.Contains(err.Error(), "Try: without it") {
		t.Error(err)
	}
	mute := sqlstore.OpenDB(sqlstore.SQLite, muteConnector{&spy{dsn: "file:" + filepath.Join(t.TempDir(), "mute.db") + "?_pragma=busy_timeout(5000)"}})
	defer func() { _ = mute.Close() }()
	if _, err := sqlstore.NewWithConfig(ctx, mute, cfg); err == nil || !strings.Contains(err.Error(), "Try: modernc.org/sqlite") {
		t.Error(err)
	}
	if _, err := sqlstore.New(ctx, mute); err != nil {
		t.Error("without GroupCommit:", err)
	}
}
