package dialect_test

import (
	"testing"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// TestBatchIsBoundedInBytes: whichever part of the rows is large, a batch takes at most one row after eight MiB.
func TestBatchIsBoundedInBytes(t *testing.T) {
	large := make([]byte, 1<<20)
	for name, rec := range map[string]store.Record{
		"answers":  {Result: store.Result{Body: large}},
		"headers":  {Result: store.Result{Header: []store.Field{{Name: "A", Value: string(large)}}}},
		"requests": {Request: large},
		"data":     {Data: large},
	} {
		var b dialect.Batch
		for !b.Add(upkeep.Expired{Record: rec}) {
			if b.More(1000) {
				t.Fatalf("%s: a batch of %d rows is full", name, len(b.Rows))
			}
		}
		if n := len(b.Rows); n < 7 || n > 9 || !b.More(1000) {
			t.Errorf("%s: a batch has %d rows of 1 MiB", name, n)
		}
	}
	var b dialect.Batch
	for range 1000 {
		if b.Add(upkeep.Expired{}) {
			t.Fatal("a batch of rows without contents is full")
		}
	}
	if b.More(1001) || !b.More(1000) {
		t.Error("a batch has more rows only if it has reached its limit")
	}
}
