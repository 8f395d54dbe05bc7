package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestCompleterPassesOverTheUnhealthy: thousands of operations that others have tried in vain come first in the order of keys, and each takes long. A
// look reads a part of them, and an operation that was never tried waits neither for their turns nor for their ends.
func TestCompleterPassesOverTheUnhealthy(t *testing.T) {
	const unhealthy = 11_000
	synctest.Test(t, func(t *testing.T) {
		s := &countedLister{Store: memstore.New(), scopes: map[string]bool{}}
		box := encrypter(t)
		request := func(id store.ID) []byte {
			r, err := box.Encrypt([]byte("r"), seal.Label(id.Scope, id.Key))
			must(t, err)
			return r
		}
		put := func(id store.ID, fence int64) {
			_, err := s.Swap(t.Context(), store.Change{ID: id, Next: store.Record{State: store.StateWaiting, Fence: fence, Name: "order", Request: request(id)}})
			must(t, err)
		}
		for i := range unhealthy {
			put(store.ID{Scope: "a", Key: fmt.Sprint(i)}, 3)
		}
		put(store.ID{Scope: "z", Key: "healthy"}, 1)

		const every = 10 * time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 4*every)
		defer cancel()
		began := time.Now()
		var waited time.Duration
		tried := 0
		done := make(chan error)
		go func() {
			done <- lease.Completer{
				Store: lease.New(s, lease.Config{}), Encrypter: box, Every: every, Concurrency: 1, Log: slog.New(slog.DiscardHandler),
				Handlers: lease.Handlers{"order": func(_ context.Context, op once.Operation) error {
					if op.Scope == "z" {
						waited = time.Since(began)
						return nil
					}
					tried++
					<-time.After(time.Minute)
					return errors.New("in vain")
				}},
			}.Run(ctx)
		}()
		pass(time.Minute)
		synctest.Wait()
		if s.listings != 10 {
			t.Errorf("the first look has read %d pages, want 10", s.listings)
		}
		must(t, <-done)
		if waited == 0 || waited > 2*every+5*time.Minute {
			t.Errorf("the healthy one has waited for %v", waited)
		}
		if tried < 1000 || tried > unhealthy/2 {
			t.Errorf("vacuous: %d of %d were tried", tried, unhealthy)
		}
	})
}
