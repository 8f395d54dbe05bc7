package shared

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/storetest"
)

// illnesses are what Redis does while a suite runs. Each says whether there must be hits.
var illnesses = []struct {
	name string
	hits bool
	fall func(t *testing.T, server *testenv.Redis, client *redis.Client)
}{
	{"up", true, func(*testing.T, *testenv.Redis, *redis.Client) {}},
	{"refused", false, func(t *testing.T, server *testenv.Redis, _ *redis.Client) { t.Helper(); must(t, server.Kill()) }},
	{"hung", false, func(t *testing.T, server *testenv.Redis, _ *redis.Client) { t.Helper(); must(t, server.Freeze()) }},
	{"flushed", true, flush},
}

// flush flushes the server in a loop, until the test ends.
func flush(t *testing.T, _ *testenv.Redis, client *redis.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			_ = client.FlushAll(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// conform runs the whole suite of stores with a shared cache. Where look-ups hang it takes long.
func conform[TX any](t *testing.T, harness func() storetest.Harness[TX], tier testenv.Tier) {
	t.Helper()
	for _, ill := range illnesses {
		t.Run(ill.name, func(t *testing.T) {
			if tier == testenv.InTest && ill.name == "hung" {
				testenv.Cell(t, testenv.InProve)
			} else {
				testenv.Cell(t, tier)
			}
			if tier == testenv.InProve {
				testenv.Sample(t, 2)
			}
			t.Parallel()
			server, client := start(t)
			w := watch(client)
			h := harness()
			h.Shared, h.Brief = w, true
			advance := h.Advance
			h.Advance = func(tb testing.TB, s store.Store[TX], d time.Duration) {
				tb.Helper()
				advance(tb, s, d)
				if ill.hits {
					w.advance(context.Background())
				}
			}
			ill.fall(t, server, client)
			t.Run("suite", func(t *testing.T) { storetest.Run(t, h) })
			t.Logf("%d hits, %d misses", w.hits.Load(), w.misses.Load())
			if hits := w.hits.Load(); (hits > 0) != ill.hits || w.misses.Load() == 0 {
				t.Errorf("vacuous: %d hits, %d misses", hits, w.misses.Load())
			}
		})
	}
}

// TestConformance is the suite of all stores on memstore, with a shared cache whose Redis is up, refuses, hangs, and is flushed in a loop. It is the same in all.
func TestConformance(t *testing.T) {
	testenv.Both(t)
	conform(t, onMemory, testenv.InTest)
}

// TestConformancePgx is the same on pgxstore.
func TestConformancePgx(t *testing.T) {
	testenv.Prove(t)
	conform(t, onPgx, testenv.InProve)
}
