package consumer

import (
	"os"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// TestBacklogIsAppliedInOrder: a stream of NATS or a topic of Kafka has many messages when its consumers begin. Each is applied once and in order. With
// ONCE_TORTURE=long there are 100,000.
func TestBacklogIsAppliedInOrder(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range []string{"NATS", "Kafka"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 2000
			if os.Getenv("ONCE_TORTURE") == "long" {
				n = 100_000
			}
			const keys = 50
			b, g := brokers[name](t), newPgx(t)
			began := time.Now()
			b.publish(t, batch(keys, 1, int64(n/keys)))
			published := time.Since(began)
			began = time.Now()
			in := g.inbox(&events{})
			for range 2 {
				startOn(t, b, in, g.apply, 4, 100)
			}
			g.waitFor(t, n)
			applied := time.Since(began)
			b.waitDone(t)
			g.check(t, n, keys)
			testenv.Reportf(t, "%d messages: %.0f published and %.0f applied per second", n, float64(n)/published.Seconds(), float64(n)/applied.Seconds())
		})
	}
}
