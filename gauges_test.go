package once_test

import (
	"slices"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/store/memstore"
)

// TestCacheGauges: calls count, and not those who only look whether the cache has something.
func TestCacheGauges(t *testing.T) {
	e := once.New(memstore.New(), once.Config{Observer: once.Discard, Cache: 1 << 20})
	op := once.Operation{Scope: "s", Key: "k"}
	for range 3 {
		_, err := once.Do(t.Context(), e, op, charge("k"))
		must(t, err)
		if !e.Cached(op) || !e.IsDone(t.Context(), op) {
			t.Error("not in the cache")
		}
	}
	values, err := e.Gauges(t.Context())
	must(t, err)
	if len(values) != 3 || values[2].Name != gaugename.CacheBytes || values[2].Number <= 0 ||
		!slices.Equal(values[:2], []gauge.Value{{Name: gaugename.CacheHits, Number: 2}, {Name: gaugename.CacheMisses, Number: 1}}) {
		t.Errorf("%+v", values)
	}
	if values, err := once.New(memstore.New(), once.Config{}).Gauges(t.Context()); err != nil || values != nil {
		t.Errorf("without a cache: %+v, %v", values, err)
	}
}
