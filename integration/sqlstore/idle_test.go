package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/txlimit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

const idle = 300 * time.Millisecond

// everywhere runs a test with each operation by itself, in groups, and with one connection.
func everywhere(t *testing.T, test func(*crowd)) {
	t.Helper()
	for name, c := range map[string]struct {
		cfg   sqlstore.Config
		conns int
	}{
		"line": {}, "group": {cfg: sqlstore.Config{GroupCommit: true}},
		"one connection": {conns: 1}, "group, one connection": {cfg: sqlstore.Config{GroupCommit: true}, conns: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				newCrowd(t, dir, c.cfg, func(int) { synctest.Wait() }, func(w *crowd) {
					w.db.SetMaxOpenConns(c.conns)
					test(w)
				})
			})
		})
	}
}

// hung is a member whose handler hangs after its first statement, until it is woken.
type hung struct {
	*member
	hangs, wake chan struct{}
	ended       sync.WaitGroup
}

func newHung(key string, then func(ctx context.Context, tx *sql.Tx) error) *hung {
	h := &hung{member: newMember(key), hangs: make(chan struct{}), wake: make(chan struct{})}
	h.op.Timeouts.Idle = idle
	h.work = func(ctx context.Context, tx *sql.Tx, run int) (string, error) {
		if run > 1 {
			return "again", nil
		}
		close(h.hangs)
		<-h.wake
		return "late", then(ctx, tx)
	}
	return h
}

func (h *hung) begin(c *crowd) {
	h.ended.Go(func() { c.do(h.member) })
	<-h.hangs
}

func (h *hung) goOn() {
	close(h.wake)
	h.ended.Wait()
}

// isBusy fails unless m was told that nothing was applied, why, and to come back.
func (c *crowd) isBusy(m *member, says string) {
	c.t.Helper()
	var e *once.Error
	if !errors.As(m.err, &e) || e.Code != once.CodeUnavailable || e.Effect != once.EffectNotApplied || e.After <= 0 ||
		c.s.Classify(m.err) != store.KindBusy || !strings.Contains(m.err.Error(), says) || !strings.Contains(m.err.Error(), "Try: ") {
		c.t.Errorf("%s: %v", m.key, m.err)
	}
}

// late are the ways in which a handler goes on when its transaction is over.
var late = map[string]func(ctx context.Context, tx *sql.Tx) error{
	"it returns": func(context.Context, *sql.Tx) error { return nil },
	"its next statement fails": func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into charge values ('late')")
		return err
	},
	"it swallows that": func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "insert into charge values ('late')")
		return nil
	},
	"it commits": func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
	"it panics":  func(context.Context, *sql.Tx) error { panic("late") },
}

// TestIdleHandlerBlocksNoOther: a handler that hangs keeps no other from the file or from the connection for
// longer than Timeouts.Idle, and when it goes on it does nothing; a retry executes.
func TestIdleHandlerBlocksNoOther(t *testing.T) {
	for name, then := range late {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(c *crowd) {
				bad := newHung("bad", then)
				bad.panics = name == "it panics"
				bad.begin(c)
				next := newMember("next")
				c.do(next)
				c.executed(next)
				if next.took < idle || next.took > idle+2*time.Millisecond { // the file is left to other processes now and then
					t.Errorf("the next one has waited for %v", next.took)
				}
				if got := c.spy.take("ROLLBACK"); !slices.Equal(got, []int{1}) {
					t.Errorf("rolled back: %v", got)
				}
				after := newHung("after", func(context.Context, *sql.Tx) error { return nil }) // has that connection when bad goes on
				after.op.Timeouts.Idle = 0
				after.begin(c)
				bad.goOn()
				after.goOn()
				c.executed(after.member)
				if bad.panics {
					if bad.err == nil || !strings.Contains(bad.err.Error(), "late") {
						t.Error(bad.err)
					}
				} else {
					c.isBusy(bad.member, "idle-in-transaction timeout")
				}
				c.ran(1, bad.member)
				c.holds("bad", 0)
				c.holds("late", 0)
				again := newMember("bad")
				c.do(again)
				c.executed(again)
			})
		})
	}
}

// TestIdleEndsTheContext: a handler that waits for something else than the database learns that
// its claim is gone.
func TestIdleEndsTheContext(t *testing.T) {
	everywhere(t, func(c *crowd) {
		var cause error
		m := newMember("bad")
		m.op.Timeouts.Idle = idle
		m.work = func(ctx context.Context, _ *sql.Tx, _ int) (string, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return "", ctx.Err()
		}
		c.do(m)
		c.isBusy(m, "idle-in-transaction timeout")
		if !errors.Is(cause, once.ErrClaimLost) {
			t.Errorf("its context ended with %v", cause)
		}
	})
}

// TestIdleDuplicate: while the first one hangs, its duplicate is in flight, and no longer
// than that; then it executes, and the first one, when it goes on, gets its answer.
func TestIdleDuplicate(t *testing.T) {
	everywhere(t, func(c *crowd) {
		const wait = 100 * time.Millisecond
		e, runs, hangs, wake := once.New(c.s, once.Config{}), 0, make(chan struct{}), make(chan struct{})
		op := once.Operation{Scope: "crowd", Key: "k", Timeouts: store.Timeouts{Idle: idle}, Wait: wait}
		do := func() (once.Result[int], error) {
			return once.Do(context.Background(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
				runs++
				own := runs
				_, err := tx.ExecContext(ctx, "insert into charge values ('k')")
				if own == 1 {
					close(hangs)
					<-wake
					_, err = tx.ExecContext(ctx, "insert into charge values ('k')")
				}
				return own, err
			})
		}
		var first once.Result[int]
		var err error
		var ended sync.WaitGroup
		ended.Go(func() { first, err = do() })
		<-hangs
		began := time.Now()
		if _, err := do(); once.CodeOf(err) != once.CodeInFlight || time.Since(began) != wait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		op.Wait = time.Hour
		if r, err := do(); err != nil || r.Replayed || r.Value != 2 || time.Since(began) != idle {
			t.Errorf("after %v: %+v, %v", time.Since(began), r, err)
		}
		close(wake)
		ended.Wait()
		if err != nil || !first.Replayed || first.Value != 2 || runs != 2 {
			t.Errorf("the first one: %+v, %v, %d runs", first, err, runs)
		}
		c.holds("k", 1)
	})
}

// TestIdleIsNot: a transaction that takes long without being idle, or whose COMMIT has begun, is not
// ended; nor is one of a store that sets no limit.
func TestIdleIsNot(t *testing.T) {
	slow := func(text string, reached *int) func(string) error {
		return func(got string) error {
			if got == text {
				*reached++
				pass(10 * idle)
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		text string
		work func(ctx context.Context, tx *sql.Tx, run int) (string, error)
	}{
		"a slow statement": {"insert into charge values (?)", nil},
		"a slow COMMIT":    {commits, nil},
		"a busy handler": {"select 1", func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
			for range 10 {
				pass(idle - 1)
				if _, err := tx.ExecContext(ctx, "insert into parent values (null)"); err != nil {
					return "", err
				}
			}
			_, err := tx.ExecContext(ctx, "select 1")
			return "", err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(w *crowd) {
				reached := 0
				m := newMember("m")
				m.op.Timeouts.Idle, m.work = idle, c.work
				w.spy.bend(slow(c.text, &reached), nil)
				w.do(m)
				w.spy.bend(nil, nil)
				w.executed(m)
				w.ran(1, m)
				if reached != 1 || m.took < 10*idle {
					t.Errorf("vacuous: %d, %v", reached, m.took)
				}
			})
		})
	}
	inLine(t, func(w *crowd) {
		m := newMember("m")
		m.work = func(context.Context, *sql.Tx, int) (string, error) { pass(time.Hour); return "", nil }
		w.do(m)
		w.executed(m)
	})
}

// TestIdleRows: a result that is not read is no work.
func TestIdleRows(t *testing.T) {
	everywhere(t, func(c *crowd) {
		var got error
		bad := newMember("bad")
		bad.op.Timeouts.Idle = idle
		bad.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
			rows, err := tx.QueryContext(ctx, "select 1 union all select 2")
			if err != nil {
				return "", err
			}
			defer func() { _ = rows.Close() }()
			rows.Next()
			pass(time.Minute)
			if rows.Next() {
				t.Error("a row of a transaction that is over")
			}
			got = rows.Err()
			return "", got
		}
		next := newMember("next")
		c.together(bad, next)
		c.executed(next)
		if got == nil {
			t.Error("vacuous: no error of the rows")
		}
		c.isBusy(bad, "idle-in-transaction timeout")
		c.holds("bad", 0)
	})
}

// TestStatementTimeout: a statement that does not end is ended after Timeouts.Statement.
func TestStatementTimeout(t *testing.T) {
	const endlessRows = "with recursive c(n) as (select 1 union all select n + 1 from c) select n from c"
	for name, text := range map[string]string{"a read": endlessRead, "a write": endlessWrite, "rows": endlessRows} {
		for how, cfg := range map[string]sqlstore.Config{"line": {}, "group": {GroupCommit: true}} {
			t.Run(name+", "+how, func(t *testing.T) {
				newCrowd(t, t.TempDir(), cfg, nil, func(c *crowd) {
					for _, swallows := range []bool{false, true} {
						bad, reached := newMember("bad"), false
						bad.op.Timeouts.Statement = 50 * time.Millisecond
						bad.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
							reached = true
							_, err := numbers(ctx, tx, text, 0, nil)
							var timeout *txlimit.TimeoutError
							if !errors.As(err, &timeout) || timeout.SQLState() != "57014" {
								t.Error(err)
							}
							if swallows {
								return "", nil
							}
							return "", err
						}
						for tries := 0; !reached && tries < 10; tries++ { // on a busy machine a statement before it may take so long
							c.do(bad)
						}
						if swallows { // as on a server
							if once.CodeOf(bad.err) != once.CodeAborted || once.EffectOf(bad.err) != once.EffectNotApplied {
								t.Error(bad.err)
							}
						} else {
							c.isBusy(bad, "statement timeout")
						}
						c.holds("bad", 0)
					}
					again := newMember("bad")
					again.op.Timeouts.Statement = time.Minute
					c.do(again)
					c.executed(again)
				})
			})
		}
	}
}
