package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once"
)

var errBusiness = errors.New("not today")

// wrongHandlers are what a member of a group does wrong, between neighbours.
var wrongHandlers = []struct {
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
		rows, err := tx.QueryContext(ctx, "select id from charge")
		if err == nil {
			rows.Next()
		}
		return err
	}},
	{"leaves rows open and fails", once.CodeFailed, 1, 1, 1, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "select id from charge")
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
	for _, m := range wrongHandlers {
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
					if once.CodeOf(bad.err) != m.code || bad.err != nil && once.EffectOf(bad.err) != once.EffectNotApplied {
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
