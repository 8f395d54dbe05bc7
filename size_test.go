package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestResultsThatNoDatabaseTakes are refused before they are sent: PostgreSQL would close the
// connection.
func TestResultsThatNoDatabaseTakes(t *testing.T) {
	long := strings.Repeat("x", 1<<20) // many times the same: it need not be there a thousand times
	header := func(megabytes int) (h []store.Field) {
		for range megabytes {
			h = append(h, store.Field{Value: long})
		}
		return h
	}
	type tx = *memstore.Tx
	e := once.New(memstore.New(), once.Config{})
	for _, rollback := range []bool{false, true} {
		runs := 0
		op := once.Operation{Scope: "s", Key: map[bool]string{false: "value", true: "failure"}[rollback]}
		ask := func(megabytes int) error {
			_, _, err := e.Exec(t.Context(), op, func(context.Context, tx) (once.Answer, error) {
				runs++
				return once.Answer{Result: store.Result{Header: header(megabytes)}, Rollback: rollback}, nil
			})
			return err
		}
		err := ask(954)
		if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied || !errors.As(err, new(*toolarge.Error)) || !strings.Contains(err.Error(), "Try: ") || runs != 1 {
			t.Errorf("%d runs: %v", runs, err)
		}
		if class, _ := retry.Classify(err); class != retry.ClassFinal {
			t.Errorf("retried as %v", class)
		}
		if err := ask(1); err != nil {
			t.Errorf("with a smaller result: %v", err)
		}
	}
}
