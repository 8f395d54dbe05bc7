package simulate

import (
	"fmt"
	"testing"

	"github.com/oncelib/once/retry"
)

const seeds = 5

func policy(t *testing.T, name string) Policy {
	t.Helper()
	for _, p := range Policies() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no policy %q", name)
	return Policy{}
}

// During a total outage the default sends no more than 1.15 times as much as who never
// retries, for one caller, for a few, and for many, in one process or in as many, and
// however the failures look.
func TestAmplification(t *testing.T) {
	ours, jitter := policy(t, "once/retry"), policy(t, "full jitter")
	for _, class := range []retry.Class{retry.Transient, retry.Throttled, retry.Unseen} {
		for _, callers := range []int{1, 4, 100} {
			for _, shared := range []bool{true, false} {
				for seed := range uint64(seeds) {
					s := Scenario{
						Clients: callers, Think: 100 * ms, Shared: shared, Timeout: sec, Workers: 100, Service: 10 * ms,
						Length: 31 * sec, From: sec, To: 31 * sec, Down: true, refused: class,
					}
					name := fmt.Sprintf("%v, %d callers, shared %v, seed %d", class, callers, shared, seed)
					if r := Run(s, ours, seed); r.Amplified > 1.15 || r.Attempts == r.Intents {
						t.Errorf("%s: %v attempts an intent", name, r.Amplified)
					}
					if r := Run(s, jitter, seed); seed == 0 && r.Amplified < 4 {
						t.Errorf("%s: without a budget there are %v attempts an intent: the outage is none", name, r.Amplified)
					}
				}
			}
		}
	}
}

// With the client's defaults, keys and package limit, every preset is over no later than
// with no retries at all.
func TestRecoveryOfBothSides(t *testing.T) {
	none, both := policy(t, "no retries"), policy(t, "once on both sides")
	for _, s := range Presets() {
		s.Length = s.To + 40*sec // in which slow is well again without retries, too
		for seed := range uint64(seeds) {
			without, with := Run(s, none, seed), Run(s, both, seed)
			if without.Recovery < 0 || with.Recovery < 0 || with.Recovery > without.Recovery || float64(with.Succeeded) < 0.999*float64(without.Succeeded) {
				t.Errorf("%s, seed %d: well after %v s, %d succeeded; with no retries after %v s, %d", s.Name, seed, with.Recovery, with.Succeeded, without.Recovery, without.Succeeded)
			}
		}
	}
}

// With the client's defaults alone, a service that drops what nobody waits for any more
// is well again no later than with no retries. One that does it all has the retries to
// do, too, which at the beginning are 10 of each client: it is later by the time that
// these take of what it has to spare. Without a budget it does not get well.
func TestRecoveryOfTheClientAlone(t *testing.T) {
	none, ours, jitter := policy(t, "no retries"), policy(t, "once/retry"), policy(t, "full jitter")
	herd, _ := Preset("herd")
	herd.Length = herd.To + 25*sec
	for seed := range uint64(seeds) {
		without, with := Run(herd, none, seed), Run(herd, ours, seed)
		more := float64(with.Attempts-with.Intents) / (float64(herd.Workers)/herd.Service.Seconds() - herd.Rate)
		if late := with.Recovery - without.Recovery; with.Recovery < 0 || late > more+0.2 || late > 1 {
			t.Errorf("seed %d: well after %v s, with no retries after %v s; %v s are explained by the retries", seed, with.Recovery, without.Recovery, more)
		}
		if never := Run(herd, jitter, seed); never.Recovery >= 0 {
			t.Errorf("seed %d: without a budget it is well after %v s: this is no storm", seed, never.Recovery)
		}
		polite := herd
		polite.notices = true
		without, with = Run(polite, none, seed), Run(polite, ours, seed)
		if with.Recovery < 0 || with.Recovery > without.Recovery {
			t.Errorf("seed %d, where the service notices: well after %v s, with no retries after %v s", seed, with.Recovery, without.Recovery)
		}
	}
}

// A pool that bears those who wait in it is not brought down by retries that know their
// first attempt.
func TestKeysSaveThePool(t *testing.T) {
	pool, _ := Preset("pool")
	pool.Length = pool.To + 10*sec
	for seed := range uint64(seeds) {
		keyless, keyed := Run(pool, policy(t, "once/retry + limit"), seed), Run(pool, policy(t, "once on both sides"), seed)
		if keyed.Succeeded <= keyless.Succeeded || float64(keyed.Succeeded) < 0.98*float64(keyed.Intents) {
			t.Errorf("seed %d: %d of %d succeed, without keys %d", seed, keyed.Succeeded, keyed.Intents, keyless.Succeeded)
		}
	}
}
