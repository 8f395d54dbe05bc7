package fairqueue

import "time"

// tenant contains the requests of one tenant. The tenants take turns.
type tenant struct {
	name     string
	running  int
	waiters  []*Waiter
	promised time.Duration
	next     *tenant // the next tenant in the list of unused tenants
}

// longest returns the tenant with the most waiting requests.
func (q *Queue) longest() (most *tenant) {
	for _, t := range q.order {
		if most == nil || len(t.waiters) > len(most.waiters) {
			most = t
		}
	}
	return most
}

// tenant returns the tenant with this name. The caller must call drop if the tenant has no served or waiting request.
func (q *Queue) tenant(name string) *tenant {
	if t := q.tenants[name]; t != nil {
		return t
	}
	t := q.spare
	if t == nil {
		t = new(tenant)
	}
	q.spare = t.next
	t.name, t.next, t.promised = name, nil, 0
	q.tenants[name] = t
	return t
}

// drop moves a tenant without requests to the list of unused tenants.
// The map may have another tenant of this name by now, so the identity is checked.
func (q *Queue) drop(t *tenant) {
	if t.running == 0 && len(t.waiters) == 0 && q.tenants[t.name] == t {
		delete(q.tenants, t.name)
		t.name, t.next = "", q.spare
		q.spare = t
	}
}
