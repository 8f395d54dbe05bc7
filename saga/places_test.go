package saga_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// node is a node whose definition "pay" makes calls that hang, and whose definition "mail" works.
type node struct {
	fixture

	runner    *saga.Runner[*memstore.Tx]
	pay, mail *saga.Definition[string, string]
	hang      func(<-chan struct{}) // what a call of "pay" does until its context ends
	calls     atomic.Int64          // of "pay"
	healed    atomic.Bool           // a call of "pay" works
	hung      atomic.Int64          // events of sagas that hang
	worked    chan string           // what has worked
}

// Observe counts the sagas that hang.
func (n *node) Observe(_ context.Context, e saga.Event) {
	if e.Type == saga.EventHanging && e.Saga == "pay" && e.Step == "pay" && e.ID.Tenant != "" {
		n.hung.Add(1)
	}
}

func (g fixture) node(places int) *node {
	n := &node{fixture: g, worked: make(chan string, 100), hang: func(ended <-chan struct{}) { <-ended }}
	pay := saga.Call("pay", func(ctx context.Context, _, _ string) (string, error) {
		if n.healed.Load() {
			n.worked <- "pay"
			return "", nil
		}
		n.calls.Add(1)
		n.hang(ctx.Done())
		return "", ctx.Err()
	}).SafeToRepeat()
	mail := saga.Call("mail", func(context.Context, string, string) (string, error) { n.worked <- "mail"; return "", nil }).SafeToRepeat()
	n.pay, n.mail = saga.New("pay", flowOf(pay), pay), saga.New("mail", flowOf(mail), mail)
	n.runner = saga.NewRunner[*memstore.Tx](g.db, saga.Config{Concurrency: places, Observer: n}, n.pay, n.mail)
	return n
}

// wantsWork wants a saga that works to run before a call that hangs has come to the end of its time.
func (n *node) wantsWork(what string) {
	n.Helper()
	before := time.Now()
	select {
	case <-n.worked:
	case <-time.After(time.Hour):
	}
	if took := time.Since(before); took > 10*time.Second { // StepTimeout is 30 s
		n.Errorf("%s: a saga that works has waited %v", what, took)
	}
}

// dies stores a saga whose node has died in the middle of it.
func (n *node) dies(name string, id saga.ID) {
	n.Helper()
	_, err := n.db.Swap(n.Context(), store.Change{
		ID: store.ID{Scope: "saga/" + id.Tenant, Key: id.Key}, Lease: time.Millisecond,
		Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("dead"), Name: name, Data: []byte(`{"input":"\"\""}`)},
	})
	if err != nil {
		n.Fatal(err)
	}
	<-time.After(2 * time.Millisecond)
}

// TestHangingCallsLeavePlaces: calls of one definition, or of one tenant, that hang do not take the places that a saga of another one needs.
func TestHangingCallsLeavePlaces(t *testing.T) {
	const places = 4
	for what, tenant := range map[string]func(i int) string{
		"a definition": func(i int) string { return fmt.Sprint("large ", i) },
		"a tenant":     func(int) string { return "large" },
	} {
		in(t, func(g fixture) {
			n := g.node(places)
			later := n.mail
			if what == "a tenant" {
				alone := saga.NewRunner[*memstore.Tx](g.db, saga.Config{Concurrency: places, Observer: n}, n.pay)
				n.runner, later = alone, n.pay
			}
			for i := range places {
				n.start(n.runner, n.pay, saga.ID{Tenant: tenant(i), Key: fmt.Sprint(i)})
			}
			stop := n.run(n.runner)
			<-time.After(time.Second)
			if calls := n.calls.Load(); calls != places-1 {
				n.Errorf("%s: %d calls hang, want all but one place", what, calls)
			}
			n.healed.Store(true)
			n.start(n.runner, later, saga.ID{Tenant: "small", Key: "1"})
			n.wantsWork(what)
			stop()
		})
	}
}

// TestStepsThatIgnoreTheirContext: a step that has not returned after its time gives its place back, and an observer is told. More steps than half
// of the places cannot do so: their goroutines would have no bound.
func TestStepsThatIgnoreTheirContext(t *testing.T) {
	const places = 2
	in(t, func(g fixture) {
		n := g.node(places)
		release := make(chan struct{})
		var now, most atomic.Int64 // calls after the release
		n.hang = func(ended <-chan struct{}) {
			select {
			case <-release:
				if k := now.Add(1); k > most.Load() {
					most.Store(k)
				}
				<-ended
				now.Add(-1)
			default:
				<-release
			}
		}
		for i := range 3 * places {
			n.start(n.runner, n.pay, saga.ID{Tenant: "large", Key: fmt.Sprint(i)})
		}
		stop := n.run(n.runner)
		<-time.After(10 * time.Hour)
		if calls, hung := n.calls.Load(), n.hung.Load(); calls != places+places/2 || hung != calls {
			n.Errorf("%d calls were made, and %d sagas hang, with %d places", calls, hung, places)
		}
		close(release)
		<-time.After(time.Hour)
		if most.Load() != places {
			n.Errorf("%d calls at the same time after the end of those that hung, with %d places", most.Load(), places)
		}
		stop()
	})
	in(t, func(g fixture) {
		n := g.node(places)
		release := make(chan struct{})
		n.hang = func(<-chan struct{}) { <-release }
		for i := range places {
			n.start(n.runner, n.pay, saga.ID{Tenant: "large", Key: fmt.Sprint(i)})
		}
		stop := n.run(n.runner)
		<-time.After(time.Minute)
		n.start(n.runner, n.mail, saga.ID{Tenant: "small", Key: "1"})
		n.wantsWork("steps that ignore their context")
		close(release)
		stop()
	})
}

// TestSagasOfADeadNode: a node dies with many sagas of a tenant whose calls hang. They delay neither a saga that is due, nor the saga of another
// tenant that the dead node had.
func TestSagasOfADeadNode(t *testing.T) {
	const many = 200
	in(t, func(g fixture) {
		n := g.node(2)
		for i := range many {
			n.dies("pay", saga.ID{Tenant: "large", Key: fmt.Sprint(i)})
		}
		stop := n.run(n.runner)
		synctest.Wait()
		n.start(n.runner, n.mail, saga.ID{Tenant: "small", Key: "due"})
		n.wantsWork("sagas of a dead node")
		if n.calls.Load() == 0 {
			n.Error("vacuous: no call hangs")
		}
		stop()
	})
	in(t, func(g fixture) {
		n := g.node(4) // two places are for sagas of dead nodes
		for i := range many {
			n.dies("pay", saga.ID{Tenant: "large", Key: fmt.Sprint(i)})
		}
		n.dies("mail", saga.ID{Tenant: "small", Key: "dead"})
		stop := n.run(n.runner)
		n.wantsWork("another saga of the dead node")
		stop()
	})
}
