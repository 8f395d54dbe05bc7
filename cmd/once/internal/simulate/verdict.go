package simulate

import (
	"fmt"
	"strings"
)

// Names of the policies that a verdict compares with clients that do not retry.
const (
	policyNone    = "no retries"
	policyNaive   = "full jitter"
	policyOurs    = "once/retry"
	policyLimited = "once/retry + limit"
)

// little is the part of the intents up to which a difference does not count.
const little = 0.001

// verdict says what retries have done, compared with clients that do not retry. It uses only the numbers of the results.
func verdict(o Outcome) string {
	by := map[string]Result{}
	for _, r := range o.Results {
		by[r.Name] = r
	}
	none, naive, ours, limited := by[policyNone], by[policyNaive], by[policyOurs], by[policyLimited]
	all := []string{
		fmt.Sprintf("Without retries, %s of %s calls succeeded, and the service %s.", none.Percent(), thousands(none.Intents), none.health()),
		"Retries without a budget (" + naive.Name + ") " + naive.against(none),
		"The default of package retry (" + ours.Name + ") " + ours.against(none),
		"The default of package retry, with package limit in front of the service, " + limited.against(none),
	}
	return conclusion(naive.gain(none), max(ours.gain(none), limited.gain(none))) + " " + strings.Join(all, " ")
}

// conclusion says whether retries have helped.
func conclusion(naive, ours float64) string {
	switch {
	case naive > little && ours > little:
		return "In this simulation, retries help."
	case naive < -little && ours > little:
		return "In this simulation, retries do harm without a budget. Retries help with a budget, if the service sheds load."
	case naive < -little && ours < -little:
		return "In this simulation, retries do harm, and a budget limits the harm."
	case naive < -little:
		return "In this simulation, retries do harm without a budget, and do no harm with a budget."
	case ours > little:
		return "In this simulation, retries help only with a budget."
	case ours < -little:
		return "In this simulation, retries do harm."
	}
	return "In this simulation, retries make little difference."
}

// gain returns how much larger the part of successful intents is than in another result.
func (r Result) gain(than Result) float64 { return r.share() - than.share() }

func (r Result) share() float64 { return float64(r.Succeeded) / float64(max(1, r.Intents)) }

// against says how a result differs from the result without retries.
func (r Result) against(none Result) string {
	what := "made little difference"
	switch gain := r.gain(none); {
	case gain > little:
		what = "helped"
	case gain < -little:
		what = "did harm"
	}
	return fmt.Sprintf("%s: %s succeeded, with %.2f attempts for each call, and the service %s.", what, r.Percent(), r.Amplified, r.health())
}

// health says when the service was well again.
func (r Result) health() string {
	switch {
	case r.Recovery < 0:
		return "did not recover in this time"
	case r.Recovered() == "at once":
		return "recovered at once"
	}
	return "recovered after " + r.Recovered()
}
