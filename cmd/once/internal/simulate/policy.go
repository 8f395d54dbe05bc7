package simulate

import (
	"math"
	"time"

	"github.com/oncelib/once/retry"
)

// Policy is the retry behaviour of clients, and whether the service sheds load.
type Policy struct {
	Name string `json:"name"`
	What string `json:"what"`
	Ours bool   `json:"ours"` // the default of package retry

	retry    retry.Policy
	burst    int     // the burst of the budget; 0 means the default
	traffic  bool    // retries are limited to 20 % of the sent requests, and 100
	inFlight float64 // retries are limited to this part of the requests in flight, or 3
	rigid    bool    // no jitter
	breaker  bool
	shed     bool // the service uses package limit
	keyed    bool // all attempts have one key, which the service remembers
}

// Policies are the compared policies.
func Policies() []Policy {
	const unlimited = -1
	jitter := retry.Policy{}
	return []Policy{
		{Name: "no retries", What: "The client does not retry.", retry: retry.Policy{Attempts: 1}},
		{Name: "immediate", What: "Up to 4 retries, without a pause.", retry: retry.Policy{Base: -1}, burst: unlimited},
		{Name: "fixed pause", What: "Up to 4 retries, with pauses of 200 ms.", retry: retry.Policy{Base: 200 * ms, Cap: 200 * ms}, rigid: true, burst: unlimited},
		{Name: "exponential", What: "Pauses of 100, 200, 400 and 800 ms, the same for all clients.", retry: jitter, rigid: true, burst: unlimited},
		{Name: "full jitter", What: "Full jitter: each pause has a random length, at most that of the exponential pause.", retry: jitter, burst: unlimited},
		{Name: "in-flight budget", What: "Full jitter; at most 20 % of the requests in flight are retries, but 3 retries are always allowed.", retry: jitter, burst: unlimited, inFlight: 0.2},
		{Name: "traffic budget", What: "Full jitter; each request allows 0.2 retries, and 100 retries are in reserve.", retry: jitter, burst: unlimited, traffic: true},
		{Name: "breaker", What: "Full jitter; if half of 20 requests in 10 s fail, the client sends nothing for 5 s.", retry: jitter, burst: unlimited, breaker: true},
		{Name: "queue cap", What: "Full jitter without a budget; package limit is in front of the service.", retry: jitter, burst: unlimited, shed: true},
		{Name: "once/retry", What: "The default of package retry: full jitter; each successful call allows 0.1 retries, and 10 retries are in reserve; no retry if other calls fail in the same way.", retry: jitter, Ours: true},
		{Name: "once/retry + limit", What: "The default of package retry; package limit is in front of the service.", retry: jitter, Ours: true, shed: true},
		{Name: "once on both sides", What: "As once/retry + limit. In addition, all attempts of a call have one key, and the service remembers the key.", retry: jitter, Ours: true, shed: true, keyed: true},
	}
}

// rigid replaces the random number in the pause of a policy without jitter.
var rigid = math.Nextafter(1, 0)

// process is one client process.
type process struct {
	policy   retry.Policy
	retrying int     // retries in flight
	flying   int     // calls, also while they wait for a retry, plus retrying: failsafe-go counts in this way
	saved    float64 // retries that sent requests have earned
}

func (p *Policy) process(c *clock, timeout time.Duration) *process {
	of := &process{policy: p.retry, saved: 100}
	of.policy.Timeout = timeout
	of.policy.Budget = &retry.Budget{Burst: p.burst}
	if p.breaker {
		of.policy.Breaker = &breaker{clock: c}
	}
	return of
}

// allowed applies the budgets that package retry does not have.
func (p *Policy) allowed(of *process) bool {
	if p.traffic {
		if of.saved < 1 {
			return false
		}
		of.saved--
		return true
	}
	return p.inFlight == 0 || of.retrying < 3 || float64(of.retrying) <= p.inFlight*float64(of.flying)
}
