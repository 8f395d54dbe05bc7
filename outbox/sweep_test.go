package outbox

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// keptDatabase has delivered messages that were kept for long enough.
type keptDatabase struct {
	fakeSQL

	kept atomic.Int64
}

func (d *keptDatabase) Pool() sqlplane.Runner { return d }

// firstPart holds part 0.
type firstPart struct{ holder }

func (firstPart) Use([]int) ([]hold.Part, func()) { return []hold.Part{{}}, func() {} }

func (d *keptDatabase) Exec(_ context.Context, s store.Statement) (int64, error) {
	if !strings.Contains(s.SQL, "once_outbox_sent") {
		return 0, nil
	}
	n := min(d.kept.Load(), sweepBatch)
	d.kept.Add(-n)
	return n, nil
}

// TestSweepKeepsUp: one sweep deletes all that was kept for long enough, however much has come since the last one.
func TestSweepKeepsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &keptDatabase{fakeSQL: fakeSQL{dialect: sqlplane.SQLite}}
		r := newRelay(db, PublisherFunc(func(context.Context, []message.Message) []error { return nil }), RelayConfig{})
		r.holder, r.keep = firstPart{}, time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.sweep(ctx) }()
		for range 3 {
			db.kept.Store(150_500) // of one interval, at 10,000 a second
			<-time.After(sweepEvery)
			synctest.Wait()
			if n := db.kept.Load(); n > 0 {
				t.Errorf("%d messages are left after a sweep", n)
			}
		}
		cancel()
		<-ended
	})
}

// archivedDatabase has one delivered message that was kept for long enough.
type archivedDatabase struct {
	keptDatabase

	deletes int
}

func (d *archivedDatabase) Pool() sqlplane.Runner { return d }

func (d *archivedDatabase) Query(_ context.Context, _ store.Statement, fn func(sqlplane.Row) error) error {
	return fn(emptyRow{})
}

func (d *archivedDatabase) Within(ctx context.Context, _ store.Isolation, fn func(context.Context, sqlplane.Runner) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.deletes++
	return fn(ctx, d)
}

// emptyRow is a row of zero values.
type emptyRow struct{}

func (emptyRow) Scan(...any) error { return nil }

// TestSlowArchiveDeletesItsMessages: messages that an archive has taken are deleted, even if it has taken minutes for them.
func TestSlowArchiveDeletesItsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &archivedDatabase{keptDatabase: keptDatabase{fakeSQL: fakeSQL{dialect: sqlplane.SQLite}}}
		r := newRelay(db, PublisherFunc(func(context.Context, []message.Message) []error { return nil }), RelayConfig{})
		r.keep, r.archive = time.Hour, func(context.Context, []upkeep.Expired) error { <-time.After(5 * time.Minute); return nil }
		if err := r.sweepSent(t.Context()); err != nil || db.deletes != 1 {
			t.Errorf("%d deletes, %v", db.deletes, err)
		}
	})
}
