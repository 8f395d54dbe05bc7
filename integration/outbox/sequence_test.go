package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// wantSequence checks that a key has messages 1, 2, ... want, and that their ids grow as their numbers do.
func (g *fixture[TX]) wantSequence(t *testing.T, topic, key string, want int) {
	t.Helper()
	n := 0
	must(t, g.store.Pool().Query(t.Context(), g.text("select seq from once_outbox where topic = ? and KEY = ? and seq > 0 order by id", topic, key), func(row sqlplane.Row) error {
		var seq int
		err := row.Scan(&seq)
		if n++; seq != n {
			t.Errorf("message %d of %s/%s by its id has number %d", n, topic, key, seq)
		}
		return err
	}))
	if n != want {
		t.Errorf("%s/%s has %d messages, want %d", topic, key, n, want)
	}
	if want > 0 && g.count(t, "select seq from once_stream where topic = ? and KEY = ?", topic, key) != want {
		t.Errorf("the last number of %s/%s is not %d", topic, key, want)
	}
}

// TestSequenceHasNoGaps under 16 writers of one key, some of whom roll back. While the key has no row yet, a
// rollback makes those that wait for it deadlock on MySQL: a writer that is told that nothing was applied does it again.
func TestSequenceHasNoGaps(t *testing.T) {
	testenv.Both(t)
	on(t, testSequenceHasNoGaps[pgx.Tx], testSequenceHasNoGaps[*sql.Tx])
}

func testSequenceHasNoGaps[TX any](t *testing.T, g *fixture[TX]) {
	const writers, each = 16, 10
	failed := errors.New("failed")
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				var want error
				if (w+i)%4 == 0 {
					want = failed
				}
				var err error
				for refused := true; refused; refused = g.store.Dialect() == sqlplane.MySQL && once.CodeOf(err) == once.CodeConflict {
					err = g.doAt(t.Context(), store.ReadCommitted, func(ctx context.Context, tx TX) error {
						return errors.Join(g.box.Add(ctx, tx, event("hot", "k", "t")), g.charge(ctx, tx, once.NewKey()), want)
					})
				}
				if !errors.Is(err, want) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	g.wantSequence(t, "hot", "k", writers*each*3/4)
}

// TestHotKeyAtEachLevel: at REPEATABLE READ and SERIALIZABLE writers of one key conflict. Each of them is
// told the truth, and the sequence has no gaps.
func TestHotKeyAtEachLevel(t *testing.T) {
	testenv.Prove(t)
	on(t, testHotKeyAtEachLevel[pgx.Tx], testHotKeyAtEachLevel[*sql.Tx])
}

func testHotKeyAtEachLevel[TX any](t *testing.T, g *fixture[TX]) {
	const writers, each = 6, 8
	for _, level := range []store.Isolation{store.ReadCommitted, store.RepeatableRead, store.Serializable} {
		topic := fmt.Sprintf("hot%d", level)
		var done, refused atomic.Int64
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range each {
					err := g.doAt(t.Context(), level, func(ctx context.Context, tx TX) error { return g.box.Add(ctx, tx, event(topic, "k", "t")) })
					switch {
					case err == nil:
						done.Add(1)
					case once.EffectOf(err) == once.EffectNotApplied:
						refused.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		g.wantSequence(t, topic, "k", int(done.Load()))
		if done.Load() == 0 || level == store.ReadCommitted && refused.Load() > 0 {
			t.Errorf("level %d: %d done, %d refused", level, done.Load(), refused.Load())
		}
		t.Logf("level %d: %d done, %d refused", level, done.Load(), refused.Load())
	}
}

// TestAddRunsAgain: the messages of a run that was rolled back are gone, and so are their numbers.
func TestAddRunsAgain(t *testing.T) {
	testenv.Both(t)
	on(t, testAddRunsAgain[pgx.Tx], testAddRunsAgain[*sql.Tx])
}

func testAddRunsAgain[TX any](t *testing.T, g *fixture[TX]) {
	for i := range 3 {
		runs := 0
		must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
			runs++
			must(t, g.box.Add(ctx, tx, event("a", "k", fmt.Sprint(i, runs)), event("a", "", fmt.Sprint(i, runs))))
			if runs < 3 {
				return &store.Error{Kind: store.KindRetry, Err: errors.New("serialization failure")}
			}
			return nil
		}))
	}
	g.wantRows(t, "a 0 3", "a k 1 0 3", "a 1 3", "a k 2 1 3", "a 2 3", "a k 3 2 3")
}

// TestOneAddNeverDeadlocks: it takes the rows of its keys in one order, whatever the order of its messages.
func TestOneAddNeverDeadlocks(t *testing.T) {
	testenv.Both(t)
	on(t, testOneAddNeverDeadlocks[pgx.Tx], testOneAddNeverDeadlocks[*sql.Tx])
}

func testOneAddNeverDeadlocks[TX any](t *testing.T, g *fixture[TX]) {
	const keys, writers, each = 6, 6, 8
	list := func(reversed bool) (list []message.Message) {
		for i := range keys {
			if reversed {
				i = keys - 1 - i
			}
			list = append(list, event("a", fmt.Sprint(i), "t"))
		}
		return list
	}
	g.mustAdd(t, list(false)...) // InnoDB lets those deadlock that insert the same new row
	g.engine = once.New[TX](g.store, once.Config{Runs: 1, Observer: once.Discard})
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for range each {
				err := g.do(t.Context(), func(ctx context.Context, tx TX) error { return g.box.Add(ctx, tx, list(w%2 == 0)...) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range keys {
		g.wantSequence(t, "a", fmt.Sprint(i), 1+writers*each)
	}
}

// TestOppositeOrder: of two transactions that add to two keys in opposite order, by two Adds, pgxstore makes
// one order. On other servers they deadlock, and one of them runs again.
func TestOppositeOrder(t *testing.T) {
	testenv.Both(t)
	on(t, testOppositeOrder[pgx.Tx], testOppositeOrder[*sql.Tx])
}

func testOppositeOrder[TX any](t *testing.T, g *fixture[TX]) {
	if !g.isServer() {
		return // one transaction at a time
	}
	g.mustAdd(t, event("a", "0", "t"), event("a", "1", "t"))
	var runs atomic.Int64
	var both, all sync.WaitGroup
	both.Add(2)
	for w := range 2 {
		all.Go(func() {
			first := sync.OnceFunc(func() { both.Done(); both.Wait() })
			for {
				err := g.doAt(t.Context(), store.ReadCommitted, func(ctx context.Context, tx TX) error {
					runs.Add(1)
					if err := g.box.Add(ctx, tx, event("a", fmt.Sprint(w), "t")); err != nil {
						return err
					}
					first()
					return g.box.Add(ctx, tx, event("a", fmt.Sprint(1-w), "t"))
				})
				if once.CodeOf(err) == once.CodeConflict { // it was the victim in all of its runs
					continue
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	all.Wait()
	if deadlocked := runs.Load() > 2; deadlocked != (g.name != "pgxstore") {
		t.Errorf("%d runs of two operations", runs.Load())
	}
	g.wantSequence(t, "a", "0", 3)
	g.wantSequence(t, "a", "1", 3)
}
