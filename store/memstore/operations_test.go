package memstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// The store is what one without transactions is, if its users see no more of it.
func TestConformanceOfOperations(t *testing.T) {
	storetest.RunOperations(t, harness().Operations())
}

// oneRecord is a store whose changes reach one operation only, and that cannot list or renew.
type oneRecord struct{ s *memstore.Store }

func (o oneRecord) Read(ctx context.Context, id store.ID) (store.Record, error) {
	return o.s.Read(ctx, id)
}

func (o oneRecord) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if len(c.Held)+len(c.Writes) > 0 {
		return store.Record{}, &store.Error{Kind: store.KindMisused, Err: errors.New("one operation only")}
	}
	return o.s.Swap(ctx, c)
}

func TestConformanceOfOneRecord(t *testing.T) {
	storetest.RunOperations(t, storetest.OperationsHarness{
		Open:      func(testing.TB) store.Operations { return oneRecord{memstore.New()} },
		Peer:      func(_ testing.TB, s store.Operations) store.Operations { return s },
		Advance:   func(_ testing.TB, s store.Operations, d time.Duration) { s.(oneRecord).s.Advance(d) },
		OneRecord: true,
	})
}
