package simulate

import (
	"fmt"
	"testing"

	"github.com/oncelib/once/internal/testenv"
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
// however the failures look. A server that says "in flight" to everything is one, too, and
// since it asks for a second between attempts it takes longer until that has evened out;
// so is one that says "come back in a second" for ever.
func TestAmplificationDuringAnOutage(t *testing.T) {
	testenv.Prove(t)
	ours, jitter := policy(t, "once/retry"), policy(t, "full jitter")
	for _, class := range []retry.Class{retry.ClassTransient, retry.ClassThrottled, retry.ClassUnseen, retry.ClassInFlight, retry.ClassRateLimited} {
		length := 30 * sec
		switch class {
		case retry.ClassInFlight:
			length = 90 * sec
		case retry.ClassRateLimited:
			length = 180 * sec
		}
		for _, callers := range []int{1, 4, 100} {
			for _, shared := range []bool{true, false} {
				for seed := range uint64(seeds) {
					s := Scenario{
						Clients: callers, Think: 100 * ms, Shared: shared, Timeout: sec, Workers: 100, Service: 10 * ms,
						Length: sec + length, From: sec, To: sec + length, Down: true, refused: class,
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
	testenv.Prove(t)
	none, both := policy(t, "no retries"), policy(t, "once on both sides")
	for _, s := range Presets() {
		s.Length = s.To + 40*sec // in which slow is well again without retries, too
		var succeeded [2]int     // of all seeds: in one, chance is some 0.2 %
		for seed := range uint64(seeds) {
			without, with := Run(s, none, seed), Run(s, both, seed)
			if without.Recovery < 0 || with.Recovery < 0 || with.Recovery > without.Recovery {
				t.Errorf("%s, seed %d: well after %v s, with no retries after %v s", s.Name, seed, with.Recovery, without.Recovery)
			}
			succeeded[0] += without.Succeeded
			succeeded[1] += with.Succeeded
		}
		if float64(succeeded[1]) < 0.999*float64(succeeded[0]) {
			t.Errorf("%s: %d succeeded, with no retries %d", s.Name, succeeded[1], succeeded[0])
		}
	}
}

// With the client's defaults alone, and a service that does all that stands in its queue,
// most presets are over no later than with no retries at all. The pool is not: of its 50
// connections 10 are at work and 37.5 are stuck for three seconds, so that it bears 0.8
// retries a second for 1,000 intents, and is exhausted by a budget of one in a thousand.
// It needs keys. Without a budget no preset is over but the outage and the ordinary day.
func TestRecoveryOfTheClientAlone(t *testing.T) {
	testenv.Prove(t)
	none, ours, jitter := policy(t, "no retries"), policy(t, "once/retry"), policy(t, "full jitter")
	for _, s := range Presets() {
		s.Length = s.To + 30*sec
		var most float64 // later than without retries
		if s.Name == "pool" {
			most = s.Hang.Seconds() // when nothing is stuck any more
		}
		for seed := range uint64(seeds) {
			without, with := Run(s, none, seed), Run(s, ours, seed)
			if without.Recovery < 0 || with.Recovery < 0 || with.Recovery > without.Recovery+most || with.Amplified > 1.15 {
				t.Errorf("%s, seed %d: well after %v s, with no retries after %v s; %v attempts an intent", s.Name, seed, with.Recovery, without.Recovery, with.Amplified)
			}
			if with.Attempts == with.Intents {
				t.Errorf("%s, seed %d: nothing was retried", s.Name, seed)
			}
		}
		if storm := Run(s, jitter, 0); !s.Down && s.Fails == 0 && storm.Recovery >= 0 {
			t.Errorf("%s: without a budget it is well after %v s: this is no storm", s.Name, storm.Recovery)
		}
	}
}

// One failure among successes is still retried, with an answer or in silence, whichever client calls
// how often.
func TestIsolatedFailures(t *testing.T) {
	testenv.Prove(t)
	none, ours := policy(t, "no retries"), policy(t, "once/retry")
	for _, s := range []Scenario{
		{Name: "many requests", Clients: 20, Rate: 700},
		{Name: "few requests", Clients: 20, Rate: 20},
		{Name: "one after the other", Clients: 20, Think: 100 * ms},
		{Name: "100 callers in a process", Clients: 100, Shared: true, Think: 100 * ms},
	} {
		s.Workers, s.Service, s.Timeout, s.Length = 1000, 10*ms, sec, 60*sec
		for _, s.silent = range []bool{false, true} {
			for percent, want := range map[float64]float64{1: 0.9999, 5: 0.999, 10: 0.98} {
				s.Fails = percent / 100
				share := func(p Policy) float64 {
					r, end := Run(s, p, 1), int((s.Length-total)/Step) // what begins later may have no time
					return float64(sum(r.won[:end])) / float64(sum(r.Series.Intents[:end]))
				}
				if without := share(none); without > 1-s.Fails/2 {
					t.Errorf("%s, %v %% fail: %v succeed with no retries: nothing fails", s.Name, percent, without)
				}
				if with := share(ours); with < want {
					t.Errorf("%s, %v %% fail, silent %v: %v succeed", s.Name, percent, s.silent, with)
				}
			}
		}
	}
}

// A pool that bears those who wait in it is not brought down by retries that know their
// first attempt.
func TestKeysSaveThePool(t *testing.T) {
	testenv.Prove(t)
	pool, _ := Preset("pool")
	pool.Length = pool.To + 10*sec
	for seed := range uint64(seeds) {
		keyless, keyed := Run(pool, policy(t, "once/retry + limit"), seed), Run(pool, policy(t, "once on both sides"), seed)
		if keyed.Succeeded <= keyless.Succeeded || float64(keyed.Succeeded) < 0.98*float64(keyed.Intents) {
			t.Errorf("seed %d: %d of %d succeed, without keys %d", seed, keyed.Succeeded, keyed.Intents, keyless.Succeeded)
		}
	}
}
