package retry

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/oncelib/once/internal/base/hostname"
)

// maxBudgets is the largest number of destinations that are kept. In a gateway, strangers choose the names of destinations. 10,000 destinations need
// about 3 MB.
const maxBudgets = 10_000

// budgets has the budgets of this process by destination.
var budgets = registry{most: maxBudgets}

type registry struct {
	most int
	mu   sync.RWMutex
	all  map[string]*Budget
}

// BudgetFor returns the budget of this process for a destination, such as "api.example.com" or "api.example.com:8443". Names that differ only in
// upper and lower case, in a dot at the end, or in the port 80 or 443 are the same destination. A name in Unicode and its form in ASCII (xn--) are
// two destinations.
//
// The process remembers 10,000 destinations. After 10,000 destinations, each new destination replaces another destination, and begins with an empty
// budget: before its first retry, the new destination needs successes. So a caller that invents many destinations does not get a full budget again
// for its first destination: a destination that the process has forgotten begins again with an empty budget.
func BudgetFor(destination string) *Budget { return budgets.get(destination) }

// Budgets returns the states of all budgets that [BudgetFor] has returned, and the state of the one budget that all calls without a
// budget of their own share. The states are sorted by destination.
func Budgets() []BudgetState {
	states := append(budgets.states(), shared.State())
	slices.SortFunc(states, func(a, b BudgetState) int { return cmp.Compare(a.Destination, b.Destination) })
	return states
}

func (r *registry) get(destination string) *Budget {
	name := hostname.Canonical(destination)
	r.mu.RLock()
	b := r.all[name]
	r.mu.RUnlock()
	if b != nil {
		return b
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Another goroutine may have added the budget between the two locks.
	if b := r.all[name]; b != nil {
		return b
	}
	if r.all == nil {
		r.all = make(map[string]*Budget)
	}
	b = &Budget{name: strings.Clone(name)}
	if len(r.all) >= r.most {
		delete(r.all, r.poorest())
		// The budget begins empty, so that a caller cannot get a full one by inventing destinations.
		b.used.Store(b.size())
		b.limited.Store(b.limitedSize())
	}
	r.all[b.name] = b
	return b
}

// poorest returns the one of a few random destinations whose budget has the fewest tokens.
func (r *registry) poorest() (name string) {
	var used int64 = -1
	seen := 0
	for _, b := range r.all {
		if u := b.used.Load(); u > used {
			name, used = b.name, u
		}
		if seen++; seen == 16 {
			break
		}
	}
	return name
}

func (r *registry) states() []BudgetState {
	r.mu.RLock()
	defer r.mu.RUnlock()
	states := make([]BudgetState, 0, len(r.all)+1)
	for _, b := range r.all {
		states = append(states, b.State())
	}
	return states
}
