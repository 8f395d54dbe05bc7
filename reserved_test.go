package once_test

import (
	"context"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/store/memstore"
)

// TestReservedScopesAreRefused: only the package of an owner executes under its scopes, in whatever way, and the error says what
// to do. Scopes that only look alike are the user's.
func TestReservedScopesAreRefused(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{Observer: once.Discard})
	ways := map[string]func(ctx context.Context, op once.Operation) error{
		"Do": func(ctx context.Context, op once.Operation) error {
			_, err := once.Do(ctx, e, op, charge(op.Scope))
			return err
		},
		"DoBatch": func(ctx context.Context, op once.Operation) error {
			_, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (string, error) {
				b.Exec("put", op.Scope, "1")
				return "", nil
			})
			return err
		},
		"Join": func(ctx context.Context, op once.Operation) error {
			tx := s.BeginTx()
			if _, err := once.Join(ctx, e, tx, op, charge(op.Scope)); err != nil {
				tx.Rollback()
				return err
			}
			return tx.Commit()
		},
	}
	for name, do := range ways {
		for _, scope := range []string{"saga/order", "saga/", "gateway/acme POST /orders"} {
			err := do(t.Context(), once.Operation{Scope: scope, Key: name})
			if once.CodeOf(err) != once.CodeInvalid || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "reserved") || !strings.Contains(err.Error(), "Try: ") {
				t.Errorf("%s in %q: %v", name, scope, err)
			}
			wantEffects(t, s, scope, 0)
		}
		for _, scope := range []string{"sagas/order", "saga", "acme saga/order", "Gateway/acme"} {
			must(t, do(t.Context(), once.Operation{Scope: scope, Key: name}))
		}
		must(t, do(owner.Enter(t.Context(), owner.Saga), once.Operation{Scope: "saga/inside", Key: name}))
		if err := do(owner.Enter(t.Context(), owner.Saga), once.Operation{Scope: "gateway/inside", Key: name}); once.CodeOf(err) != once.CodeInvalid {
			t.Errorf("%s of a saga in the scope of a gateway: %v", name, err)
		}
	}
}
