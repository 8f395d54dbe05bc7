package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
)

func TestKnown(t *testing.T) {
	e := once.New(memstore.New(), once.Config{HashKeys: true})
	op := once.Operation{Scope: "s", Key: "k"}
	run := func(fail error) {
		_, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (int, error) { return 1, fail })
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	if run(errors.New("later")); e.Known(t.Context(), op) {
		t.Error("what has failed is known")
	}
	if run(nil); !e.Known(t.Context(), op) {
		t.Error("what was executed is not known")
	}
	other := op
	if other.Scope = "t"; e.Known(t.Context(), other) || e.Known(t.Context(), once.Operation{}) {
		t.Error("what was never asked for is known")
	}
}
