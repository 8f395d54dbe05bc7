package roundtrippertest

import (
	"fmt"
	"net/http"
	"sync"
)

// budgetChecks are about the load that many clients put on a service that is down.
var budgetChecks = []Check{
	{"BudgetOneCaller", "one caller does not multiply 200 requests that all fail", func(l *lab) error { return l.outage(1, 200) }},
	{"BudgetFourCallers", "four callers do not multiply 200 requests that all fail", func(l *lab) error { return l.outage(4, 50) }},
	{"BudgetHundredCallers", "a hundred callers do not multiply 200 requests that all fail", func(l *lab) error { return l.outage(100, 2) }},
	{"BudgetInFlight", "a server that answers every request with \"in flight\" gets only a few retries", func(l *lab) error {
		return l.storm(4, 50, func(c *client, url string) { _, _ = l.post(c, url) }, func(_ int, w http.ResponseWriter, _ *http.Request) {
			problem(w, 409, inFlight)
		})
	}},
}

func (l *lab) outage(callers, calls int) error {
	return l.storm(callers, calls, func(c *client, url string) { _, _ = l.do(l.ctx, c, http.MethodGet, url, "") }, failThen(503, always))
}

// storm lets each of several callers make a number of failing calls. It fails if the number of requests is more than a fifth greater than the number
// of calls. It also fails if no retries were made, because then no budget has limited anything.
func (l *lab) storm(callers, calls int, call func(c *client, url string), handle func(int, http.ResponseWriter, *http.Request)) error {
	s := l.serve(handle)
	c := l.client()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				call(c, s.URL) // fails, one way or the other
			}
		})
	}
	all.Wait()
	arrived, wanted := len(s.arrivals()), callers*calls
	if arrived > wanted*6/5 || arrived <= wanted {
		return fmt.Errorf("the client sent %d calls as %d requests, which is too many", wanted, arrived)
	}
	return nil
}
