package roundtrippertest

import (
	"fmt"
	"net/http"
	"sync"
)

// budgetChecks are about what a fleet does to a service that is down.
var budgetChecks = []Check{
	{"BudgetOneCaller", "one caller does not multiply 200 requests that all fail", func(l *lab) error { return l.storm(1, 200) }},
	{"BudgetFourCallers", "nor do four", func(l *lab) error { return l.storm(4, 50) }},
	{"BudgetHundredCallers", "nor do a hundred", func(l *lab) error { return l.storm(100, 2) }},
}

// storm lets callers fail so many times each, and fails if there were more than a fifth
// more requests than calls. It also fails if there were no retries at all: then there is
// nothing that a budget has limited.
func (l *lab) storm(callers, calls int) error {
	s := l.serve(failThen(503, always))
	c := l.client()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				_, _ = l.do(l.ctx, c, http.MethodGet, s.URL, "") // fails, one way or the other
			}
		})
	}
	all.Wait()
	arrived, wanted := len(s.arrivals()), callers*calls
	if arrived > wanted*6/5 || arrived <= wanted {
		return fmt.Errorf("%d calls have made %d requests", wanted, arrived)
	}
	return nil
}
