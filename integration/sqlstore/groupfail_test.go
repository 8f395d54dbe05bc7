package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once"
)

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
					pass(6 * time.Millisecond) // the others come, and the group is young
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
			if m.err == nil || once.EffectOf(m.err) != once.EffectNotApplied {
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
