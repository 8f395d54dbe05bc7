package gateway_test

import (
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/memstore"
)

// TestServicesShareAStore: two services with one route, one store and one key are two operations. None asks its own receipts about an operation of
// the other one, in which there is none: with a tombstone in place of it the request would execute again.
func TestServicesShareAStore(t *testing.T) {
	t.Parallel()
	s := lease.New(memstore.New(), lease.Config{})
	var forwards [2]atomic.Int64
	var services [2]*gateway.Gateway
	var receipts [2]*away
	for i, name := range []string{"payments", "refunds"} {
		receipts[i] = &away{memory: &memory{}}
		receipts[i].away.Store(true)
		services[i] = newGateway(t, "http://service", func(c *gateway.Config) {
			c.Name, c.Store, c.Receipts, c.Dial = name, s, receipts[i], committing(receipts[i].memory, &forwards[i])
			c.Routes = []gateway.Route{{Pattern: "POST /pay", OnUnknown: gateway.PolicyCheck}, {Pattern: "/pay/{id}", OnUnknown: gateway.PolicyCheck}}
		})
	}
	for _, g := range services {
		warm(t, g, "/pay")
	}
	want(t, "code", codeOf(t, ask(services[0], "k", "1")), unknown)
	receipts[1].away.Store(false)
	want(t, "answer of the other service", bodyOf(t, ask(services[1], "k", "1")), "paid")
	receipts[0].away.Store(false)
	for name := range services[0].Handlers() {
		if services[1].Handlers()[name] != nil {
			t.Errorf("both services ask about %q", name)
		}
	}
	want(t, "tombstones and receipts of the first one", len(receipts[0].all), 2)
	want(t, "tombstones and receipts of the other one", len(receipts[1].all), 2)
	want(t, "forwards to the first one", forwards[0].Load(), int64(1))
	want(t, "forwards to the other one", forwards[1].Load(), int64(1))
}

// TestServicesShareReceipts: without a store, services that write their receipts into one table have receipts of their own.
func TestServicesShareReceipts(t *testing.T) {
	t.Parallel()
	m := &memory{}
	var forwards atomic.Int64
	for _, name := range []string{"payments", "refunds"} {
		g := newGateway(t, "http://service", func(c *gateway.Config) {
			c.Name, c.Store, c.Receipts, c.Dial = name, nil, m, committing(m, &forwards)
		})
		want(t, "answer", bodyOf(t, ask(g, "k", "1")), "paid")
	}
	want(t, "forwards", forwards.Load(), int64(2))
	want(t, "receipts", len(m.all), 2)
}
