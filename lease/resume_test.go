package lease_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A completer knows only the hash of a key that was hashed. It does not execute the operation of the hash: that would
// be a second charge.
func TestCompleterOfHashedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box, HashKeys: true})
		keys := map[string]bool{}
		handler := func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
				keys[key] = true
				return "", errDead
			}, lease.CallPolicy{SafeToRepeat: true})
		}
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Request: []byte("r")}, handler)
		wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var log bytes.Buffer
		must(t, lease.Completer{
			Store: leased, Encrypter: box, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
				_, err := once.Do(ctx, e, op, handler)
				return err
			}},
		}.Run(ctx))
		if len(keys) != 1 || !strings.Contains(log.String(), "HashKeys") {
			t.Errorf("%d keys, the log has %q", len(keys), log.String())
		}
	})
}

// An operation may end between the look of a completer and its resumption, and be forgotten: its caller was told that nothing
// was applied, so nothing is executed.
func TestCompleterOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		runs := 0
		handler := func(ctx context.Context, r *lease.Run) (string, error) {
			runs++
			if _, err := lease.InTx(ctx, r, s, "a", put("a", "1")); err != nil {
				return "", err
			}
			return "", errDead
		}
		op := once.Operation{Scope: "s", Key: "k", Request: []byte("r")}
		id := store.ID{Scope: "s", Key: "k"}
		_, err := once.Do(t.Context(), e, op, handler)
		wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
		s.Advance(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		must(t, lease.Completer{
			Store: leased, Encrypter: box, Log: slog.New(slog.DiscardHandler),
			Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
				rec, err := s.Read(ctx, id)
				must(t, err)
				_, err = s.Swap(ctx, store.Change{ID: id, Expect: store.Expect{Fence: rec.Fence, Nonce: rec.Nonce}})
				must(t, err)
				_, err = once.Do(ctx, e, op, handler)
				wantOutcome(t, err, once.CodeInFlight, once.EffectNotApplied)
				return err
			}},
		}.Run(ctx))
		if runs != 1 {
			t.Errorf("executed %d times", runs)
		}
	})
}
