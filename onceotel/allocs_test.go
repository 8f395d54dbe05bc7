package onceotel_test

import (
	"context"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/store/memstore"
)

// TestSampledOutCostsTenAllocations: an operation that is executed and not sampled allocates at most ten times more than
// without an observer, with all instruments of the SDK. A replay, too.
func TestSampledOutCostsTenAllocations(t *testing.T) {
	tel := newTelemetry(t, onceotel.Config{}, trace.WithSampler(trace.NeverSample()))
	put := func(_ context.Context, t tx) (string, error) { return "paid", t.Put("refund", "1") }
	measure := func(o once.Observer, replayed bool) float64 {
		e, op, n := once.New(memstore.New(), once.Config{Observer: o}), refund, 0
		return testing.AllocsPerRun(300, func() {
			if n++; !replayed {
				op.Key = strconv.Itoa(n)
			}
			if _, err := once.Do(t.Context(), e, op, put); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, replayed := range map[string]bool{"executed": false, "replayed": true} {
		without, with := measure(nil, replayed), measure(tel, replayed)
		if t.Logf("%s: %v allocations, %v without", name, with, without); with-without > 10 {
			t.Errorf("%s: %v allocations more", name, with-without)
		}
	}
	if len(tel.take()) > 0 {
		t.Error("spans were sampled")
	}
}
