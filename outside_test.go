package once_test

import (
	"context"
	"slices"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestEffectOutsideTx: a success that has touched nothing is suspicious. A redirect or a
// refusal need not touch anything.
func TestEffectOutsideTx(t *testing.T) {
	for _, c := range []struct {
		what       string
		result     store.Result
		statements int
		want       bool
	}{
		{"a value", store.Result{}, 0, true},
		{"200", store.Result{Status: 200}, 0, true},
		{"299", store.Result{Status: 299}, 0, true},
		{"200 with a statement", store.Result{Status: 200}, 1, false},
		{"300", store.Result{Status: 300}, 0, false},
		{"303", store.Result{Status: 303}, 0, false},
		{"404", store.Result{Status: 404}, 0, false},
		{"500", store.Result{Status: 500}, 0, false},
		{"a final failure", store.Result{Kind: store.ResultFailure}, 0, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := new(recorder)
			e := once.New(memstore.New(), once.Config{Observer: r})
			_, _, err := e.Exec(t.Context(), once.Operation{Scope: "s", Key: "k"}, func(_ context.Context, tx tx) (once.Answer, error) {
				for range c.statements {
					must(t, tx.Put("k", "v"))
				}
				return once.Answer{Result: c.result}, nil
			})
			must(t, err)
			if got := slices.Contains(words(r.take()), string(once.EventEffectOutsideTx)); got != c.want {
				t.Errorf("observed: %t", got)
			}
		})
	}
}
