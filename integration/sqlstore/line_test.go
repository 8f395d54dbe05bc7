package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/store/upkeep"
)

// TestSQLiteLine: those who wait for the file in one process follow each other in the
// order in which they have come, at once, and none of them asks SQLite in vain.
func TestSQLiteLine(t *testing.T) {
	inLine(t, func(c *crowd) {
		began := time.Now()
		var all []*member
		var order []string
		for i := range 20 {
			m := newMember(fmt.Sprintf("member-%02d", i))
			m.work = func(context.Context, *sql.Tx, int) (string, error) {
				order = append(order, m.key)
				return m.key, nil
			}
			all = append(all, m)
		}
		c.together(all...)
		c.executed(all...)
		c.ran(1, all...)
		if !slices.IsSorted(order) || len(order) != 20 || time.Since(began) != 0 {
			t.Errorf("%v in %v", order, time.Since(began))
		}
		if got := c.spy.take(begin, commits); !slices.Equal(got, []int{20, 20}) {
			t.Errorf("begun, committed: %v", got)
		}
	})
}

// TestSQLiteLineGoesOn: whatever becomes of who has the file, or of who waits for it,
// those behind him get it at once.
func TestSQLiteLineGoesOn(t *testing.T) {
	const full, ioerr = codeError(13), codeError(10)
	struck := 0
	strike := func(c *crowd, text string, err error) { // once
		fails := failing(text, err)
		c.spy.bend(func(got string) error {
			err := fails(got)
			if err != nil {
				struck++
			}
			return err
		}, nil)
	}
	for name, c := range map[string]struct {
		spoil func(c *crowd, holder, waiter *member)
		holds bool // who has the file is executed
		waits bool // so is who waits
	}{
		"panics": {func(_ *crowd, holder, _ *member) {
			holder.panics = true
			holder.work = func(context.Context, *sql.Tx, int) (string, error) { panic("on purpose") }
		}, false, true},
		"fails": {func(_ *crowd, holder, _ *member) {
			holder.work = func(context.Context, *sql.Tx, int) (string, error) { return "", errBusiness }
		}, false, true},
		"is rolled back": {func(_ *crowd, holder, _ *member) {
			holder.work = func(_ context.Context, tx *sql.Tx, _ int) (string, error) { return "", tx.Rollback() }
		}, false, true},
		"its context ends": {func(_ *crowd, holder, _ *member) {
			ctx, end := context.WithCancel(context.Background())
			holder.ctx = ctx
			holder.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
				end()
				_, err := tx.ExecContext(ctx, "insert into charge values ('late')")
				return "", err
			}
		}, false, true},
		"its COMMIT fails": {func(c *crowd, _, _ *member) {
			strike(c, commits, full)
		}, false, true},
		"the context of a waiter ends": {func(_ *crowd, holder, waiter *member) {
			ctx, cancel := context.WithCancel(context.Background())
			waiter.ctx = ctx
			holder.work = func(context.Context, *sql.Tx, int) (string, error) {
				cancel()
				synctest.Wait() // it has left
				return "", nil
			}
		}, true, false},
		"the bound of a waiter": {func(_ *crowd, holder, waiter *member) {
			waiter.op.Timeouts.Lock = time.Second
			holder.work = func(context.Context, *sql.Tx, int) (string, error) {
				pass(time.Second)
				synctest.Wait()
				return "", nil
			}
		}, true, false},
		"the connection of a waiter dies": {func(c *crowd, holder, _ *member) {
			holder.work = func(context.Context, *sql.Tx, int) (string, error) {
				strike(c, begin, driver.ErrBadConn)
				return "", nil
			}
		}, true, true},
		"a waiter cannot begin": {func(c *crowd, holder, _ *member) {
			holder.work = func(context.Context, *sql.Tx, int) (string, error) {
				strike(c, begin, ioerr)
				return "", nil
			}
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(w *crowd) {
				holder, waiter, last := newMember("holder"), newMember("waiter"), newMember("last")
				c.spoil(w, holder, waiter)
				w.together(holder, waiter, last)
				w.spy.bend(nil, nil)
				for m, executed := range map[*member]bool{holder: c.holds, waiter: c.waits, last: true} {
					if executed {
						w.executed(m)
						continue
					}
					if m.err == nil {
						t.Errorf("vacuous: %s has succeeded", m.key)
					}
					w.holds(m.key, 0)
				}
				const pause = 2 * time.Millisecond // for other processes, after a while
				if last.took > holder.took+pause {
					t.Errorf("the last one has waited for %v, the first one had it for %v", last.took, holder.took)
				}
				again := newMember("again")
				w.do(again)
				w.executed(again)
			})
		})
	}
	if struck != 3 {
		t.Errorf("vacuous: %d of 3 faults have struck", struck)
	}
}

// TestSweepStandsInLine: a request that comes while a sweeper has the file gets it after a
// few rows more, and so does the next one, before the sweeper has it again.
func TestSweepStandsInLine(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeps=%v", keeps), func(t *testing.T) {
			inLine(t, func(c *crowd) {
				const rows = 80
				for i := range rows {
					c.exec(fmt.Sprintf("insert into once_operation (scope, key, claim, since, expires_at) values ('s', 'k%02d', x'%02x', 0, %d)", i, i, 1000+i))
				}
				var requests sync.WaitGroup
				var log []string // the holders of the file, in order; the holder writes
				deleted, came := 0, 0
				request := func() {
					m := newMember(fmt.Sprint("request-", came))
					m.work = func(context.Context, *sql.Tx, int) (string, error) {
						log = append(log, "request")
						return "", nil
					}
					c.do(m)
					c.executed(m)
				}
				c.spy.bend(func(text string) error {
					switch {
					case strings.HasPrefix(text, "delete from once_operation where scope = ?1 and key = ?2 and +state"):
						if deleted++; deleted == 3 && came < 2 {
							came++
							requests.Go(request)
							synctest.Wait() // it stands in line
						}
					case text == commits && deleted > 0:
						log = append(log, fmt.Sprint(deleted, " rows"))
						deleted = 0
					}
					return nil
				}, nil)
				req := upkeep.Sweep{Limit: 100}
				if keeps {
					req.Archive = func(context.Context, []upkeep.Expired) error { return nil }
				}
				swept, err := c.s.Sweep(context.Background(), req)
				requests.Wait()
				if err != nil || swept.Rows != rows || swept.More {
					t.Errorf("%+v, %v", swept, err)
				}
				if want := []string{"10 rows", "request", "10 rows", "request", "20 rows", "20 rows", "20 rows"}; !slices.Equal(log, want) {
					t.Errorf("the file was had for %v, want %v", log, want)
				}
			})
		})
	}
}
