package outbox

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// emptyDatabase has all tables and no rows. It counts reads of tails.
type emptyDatabase struct{ tails atomic.Int64 }

func (d *emptyDatabase) Dialect() sqlplane.Dialect { return sqlplane.SQLite }

func (d *emptyDatabase) Pool() sqlplane.Runner { return d }

func (d *emptyDatabase) Within(ctx context.Context, _ store.Isolation, fn func(context.Context, sqlplane.Runner) error) error {
	return fn(ctx, d)
}

func (d *emptyDatabase) Exec(context.Context, store.Statement) (int64, error) { return 0, nil }

func (d *emptyDatabase) Append(context.Context, store.Statement) error { return nil }

func (d *emptyDatabase) Query(_ context.Context, s store.Statement, _ func(sqlplane.Row) error) error {
	if strings.HasPrefix(s.SQL, "select part, topic, id from once_outbox where id > ") {
		d.tails.Add(1)
	}
	return nil
}

// everyPart holds every part.
type everyPart struct{}

func (everyPart) Run(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

func (everyPart) Use(parts []int) (held []hold.Part, done func()) {
	for _, n := range parts {
		held = append(held, hold.Part{Number: n, Fence: 1})
	}
	return held, func() {}
}

// TestWakeAfterACommit: a commit that has added messages has the relay look at once, and no other commit does. Then it polls quickly for a while.
func TestWakeAfterACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(emptyDatabase)
		r := newRelay(db, PublisherFunc(takesAll), RelayConfig{})
		r.holder = everyPart{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		looks := func(d time.Duration) int64 {
			before := db.tails.Load()
			<-time.After(d)
			synctest.Wait()
			return db.tails.Load() - before
		}
		wake := func() int64 { // the look may come before Wake returns
			before := db.tails.Load()
			r.Wake()
			synctest.Wait()
			return db.tails.Load() - before
		}
		looks(10*time.Second + 500*time.Millisecond) // between two looks: the pauses are a second long
		if n := looks(8 * time.Second); n != 8 {
			t.Errorf("%d looks in 8 idle seconds", n)
		}
		if n := wake(); n != 0 {
			t.Errorf("%d looks after a commit without messages", n)
		}
		r.added.Store(elapsed())
		if n := looks(0); n != 0 {
			t.Errorf("%d looks before the commit", n)
		}
		if n := wake(); n != 1 {
			t.Errorf("%d looks after the commit", n)
		}
		if n := wake(); n != 0 {
			t.Errorf("%d looks after the next commit", n)
		}
		if n := looks(40 * time.Millisecond); n != 4 { // each pause is a quarter longer than the one before: after 5, 11, 19 and 29 ms
			t.Errorf("%d looks in the next 40 ms", n)
		}
		var n int64
		for range 100 { // 2 ms, with a wake every 20 µs: one look each millisecond
			r.added.Store(elapsed())
			n += wake() + looks(20*time.Microsecond)
		}
		if n > 3 {
			t.Errorf("%d looks in 2 ms", n)
		}
		r.added.Store(elapsed()) // by two transactions
		r.Wake()                 // the first one commits
		looks(9*time.Second + 300*time.Millisecond)
		if n := wake(); n != 1 {
			t.Errorf("%d looks after the commit of a transaction that has added before another one committed", n)
		}
		looks(10*time.Second + 300*time.Millisecond)
		if n := wake(); n != 0 {
			t.Errorf("%d looks after a commit, ten seconds after the last message", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
