package lease

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestTwoCompleters: two nodes complete the same operations at the same time, which call a service that does not dedupe. Each
// operation is taken over by one of them.
func TestTwoCompleters(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		const operations = 12
		o, service := newDatabase(t, name), newProvider(t, false)
		var nodes []program
		for i := range 2 {
			p := program{db: o.mustOpen(t), url: service.URL, by: fmt.Sprint("node ", i), ttl: patience}
			defer p.db.close()
			nodes = append(nodes, p)
		}
		key := func(i int) string { return fmt.Sprint("operation ", i) }
		for i := range operations {
			if _, err := nodes[0].parked(t.Context(), key(i)); once.EffectOf(err) != once.EffectInDoubt {
				t.Fatal(err)
			}
		}
		var finished [2]atomic.Int64
		for i, p := range nodes {
			defer p.complete(t, func(_ string, err error) {
				if err == nil {
					finished[i].Add(1)
				}
			})()
		}
		for i := range operations {
			harness.Until(t, func() error {
				if state := nodes[0].state(t, key(i)); state != store.StateDone {
					return fmt.Errorf("%s is %s", key(i), state)
				}
				return nil
			})
			nodes[0].wantDone(t, service, key(i), key(i))
			for _, phase := range []string{"charge", "notify"} {
				if requests, _ := service.of(key(i), phase); len(requests) != 1 {
					t.Errorf("%+v", requests)
				}
			}
		}
		testenv.Count("leases taken over", int(finished[0].Load()+finished[1].Load()))
		testenv.Reportf(t, "%s: the two Completers have finished %d and %d operations", name, finished[0].Load(), finished[1].Load())
	})
}
