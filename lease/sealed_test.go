package lease_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// With an Encrypter nothing of what phases return, and of what calls send, is readable in the record. The next owner goes on with it if it has
// the key, and otherwise sends nothing.
func TestPhasesAreEncrypted(t *testing.T) {
	const secret = "4111 1111 1111 1111"
	s, box := memstore.New(), encrypter(t)
	other, err := once.NewEncrypter(bytes.Repeat([]byte{1}, 32))
	must(t, err)
	var seen []string
	ask := func(key string, box once.Encrypter, stops string) (string, error) {
		e := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard, Encrypter: box})
		op := once.Operation{Scope: id.Scope, Key: key}
		r, err := once.Do(t.Context(), e, op, func(ctx context.Context, r *lease.Run) (string, error) {
			reserved, err := lease.InTx(ctx, r, s, "reserve", func(context.Context, *memstore.Tx) (string, error) { return secret + " reserved", nil })
			if err != nil {
				return "", err
			}
			var declined *once.Failure
			if _, err := lease.Call(ctx, r, "check", func(context.Context, string) (string, error) {
				return "", &once.Failure{Code: "declined", Message: secret}
			}, lease.CallPolicy{}); !errors.As(err, &declined) {
				return "", err
			}
			found, err := lease.Call(ctx, r, "look", func(context.Context, string) (string, error) { return "", errDead }, lease.CallPolicy{Check: lease.Check(func(context.Context, string) (string, lease.Finding, error) {
				return secret + " found", lease.Happened, nil
			})})
			if err != nil {
				return "", err
			}
			charged, err := lease.CallWith(ctx, r, "charge", []byte("card "+secret), func(_ context.Context, _ string, request []byte) (string, error) {
				seen = append(seen, string(request))
				if stops == "charge" {
					return "", errDead
				}
				return secret + " charged", nil
			}, lease.CallPolicy{SafeToRepeat: true})
			if err != nil {
				return "", err
			}
			return strings.Join([]string{reserved, declined.Message, found, charged}, "; "), nil
		})
		return r.Value, err
	}
	_, err = ask("k", box, "charge")
	wantOutcome(t, err, once.CodeFailed, once.EffectInDoubt)
	rec := wantState(t, s, store.StateWaiting)
	if bytes.Contains(rec.Data, []byte("4111")) || bytes.Contains(rec.Data, []byte("Y2FyZCA0")) || !bytes.Contains(rec.Data, []byte("declined")) || !bytes.Contains(rec.Data, []byte("reserve")) {
		t.Errorf("the record has %s", rec.Data)
	}
	for name, wrong := range map[string]once.Encrypter{"none": nil, "another": other} {
		if _, err := ask("k", wrong, ""); once.EffectOf(err) != once.EffectInDoubt || len(seen) != 1 {
			t.Errorf("%s: %v, %q are sent", name, err, seen)
		}
	}
	// Moved to another operation it does not open.
	rec = wantState(t, s, store.StateWaiting)
	rec.Fence, rec.Nonce = 1, []byte("0123456789abcdef")
	_, err = s.Swap(t.Context(), store.Change{ID: store.ID{Scope: id.Scope, Key: "stolen"}, Next: rec, Lease: 1})
	must(t, err)
	if v, err := ask("stolen", box, ""); err == nil || len(seen) != 1 {
		t.Errorf("moved it opens: %q, %q are sent", v, seen)
	}
	v, err := ask("k", box, "")
	must(t, err)
	if want := secret + " reserved; " + secret + "; " + secret + " found; " + secret + " charged"; v != want {
		t.Errorf("%q, want %q", v, want)
	}
	if len(seen) != 2 || seen[1] != "card "+secret {
		t.Errorf("%q are sent", seen)
	}
	if rec := wantState(t, s, store.StateDone); bytes.Contains(rec.Data, []byte("sealed")) {
		t.Errorf("the record of what has ended has %s", rec.Data)
	}
}
