package once_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
)

// TestRetainOutlivesSettling: a record that expired before its lost commit was settled
// would be taken for one that never was, and executed again.
func TestRetainOutlivesSettling(t *testing.T) {
	for _, cfg := range []once.Config{{Retain: 59 * time.Second}, {Retain: time.Hour, Settle: 20 * time.Minute}, {Retain: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was accepted", cfg)
				}
			}()
			once.New(memstore.New(), cfg)
		}()
	}
	e := once.New(memstore.New(), once.Config{})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Retain: time.Second},
		func(context.Context, *memstore.Tx) (int, error) { return 1, nil })
	if once.CodeOf(err) != once.CodeInvalid {
		t.Error(err)
	}
}
