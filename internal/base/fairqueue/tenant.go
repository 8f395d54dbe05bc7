package fairqueue

import "time"

// tenant has the requests of one tenant, which take turns with the requests of others.
type tenant struct {
	name     string
	running  int
	waiters  []*Waiter
	promised time.Duration
	next     *tenant // spare, too
}

func (q *Queue) longest() (most *tenant) {
	for _, t := range q.order {
		if most == nil || len(t.waiters) > len(most.waiters) {
			most = t
		}
	}
	return most
}

// tenant returns the tenant of that name. It must be dropped when it has no running or waiting request any more.
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

func (q *Queue) drop(t *tenant) {
	if t.running == 0 && len(t.waiters) == 0 && q.tenants[t.name] == t {
		delete(q.tenants, t.name)
		t.name, t.next = "", q.spare
		q.spare = t
	}
}
