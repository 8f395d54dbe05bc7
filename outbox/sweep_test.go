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
