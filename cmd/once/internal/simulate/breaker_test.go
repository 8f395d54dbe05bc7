package simulate

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once/retry"
	library "github.com/oncelib/once/retry/breaker"
)

// The breaker of the simulation allows what the real one allows.
func TestBreakerIsLikeTheRealOne(t *testing.T) {
	var opened, halves int
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var c clock
			model, actual := &breaker{clock: &c}, library.New(gobreaker.Settings{})
			type pair struct{ model, actual func(retry.Health) }
			var under []pair
			bad := random.Float64()
			for range 400 {
				d := time.Duration(random.ExpFloat64() * float64(200*ms))
				<-time.After(d)
				c.now += d
				if random.IntN(100) == 0 {
					bad = random.Float64()
				}
				a, errA := model.Allow()
				b, errB := actual.Allow()
				if (errA == nil) != (errB == nil) {
					t.Fatalf("seed %d, after %v: %v, the real one: %v", seed, c.now, errA, errB)
				}
				if errA == nil {
					under = append(under, pair{a, b})
				} else {
					opened++
				}
				if actual.State() == gobreaker.StateHalfOpen {
					halves++
				}
				for len(under) > 0 && random.IntN(3) > 0 {
					i := random.IntN(len(under))
					p := under[i]
					under = append(under[:i], under[i+1:]...)
					o := retry.HealthGood
					if random.Float64() < bad {
						o = retry.HealthBad
					} else if random.IntN(5) == 0 {
						o = retry.HealthUnknown
					}
					p.model(o)
					p.actual(o)
				}
			}
		})
	}
	if opened == 0 || halves == 0 {
		t.Errorf("vacuous: open %d times, half-open %d times", opened, halves)
	}
}
