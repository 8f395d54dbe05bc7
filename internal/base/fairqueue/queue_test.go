package fairqueue_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
)

const ms = time.Millisecond

// Whatever happens, no waiter is called twice or forgotten, and no place stays empty while
// one waits.
func TestRandomHistories(t *testing.T) {
	var displaced, late, quit int
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		limit, most := 1+rnd.IntN(4), rnd.IntN(6)
		q := fairqueue.New(fairqueue.Config{Limit: limit, Queue: most, Wait: time.Second})
		var now time.Duration
		var running []fairqueue.Ticket
		waiting := map[*fairqueue.Waiter]bool{}
		for range 300 {
			now += time.Duration(rnd.IntN(50)) * ms
			switch rnd.IntN(5) {
			case 0, 1, 2:
				name := fmt.Sprint("t", rnd.IntN(3))
				if ticket, ok := q.Enter(now, name); ok {
					running = append(running, ticket)
					break
				}
				w := new(fairqueue.Waiter)
				calls := 0
				w.Call = func(r fairqueue.Refusal) {
					if calls++; calls > 1 || !waiting[w] {
						t.Fatalf("seed %d: called %d times", seed, calls)
					}
					delete(waiting, w)
					switch r.Why {
					case fairqueue.Admitted:
						running = append(running, w.Ticket)
					case fairqueue.Share:
						displaced++
					case fairqueue.Full, fairqueue.Late:
						t.Fatalf("seed %d: called for %v", seed, r.Why)
					}
				}
				waiting[w] = true
				if r := q.Wait(now, name, time.Duration(rnd.IntN(3))*100*ms, w); r.Why != fairqueue.Admitted {
					delete(waiting, w)
					if r.Why == fairqueue.Late {
						late++
					}
					if r.After < 0 || r.After > fairqueue.MaxAfter {
						t.Fatalf("seed %d: come back after %v", seed, r.After)
					}
				}
			case 3:
				if n := len(running); n > 0 {
					i := rnd.IntN(n)
					ticket := running[i]
					running = append(running[:i], running[i+1:]...)
					q.Leave(now, ticket, rnd.IntN(4) > 0)
				}
			case 4:
				for w := range waiting {
					if _, ok := q.Quit(now, w); !ok {
						t.Fatalf("seed %d: one who waits cannot go", seed)
					}
					if _, ok := q.Quit(now, w); ok {
						t.Fatalf("seed %d: went twice", seed)
					}
					delete(waiting, w)
					quit++
					break
				}
			}
			if q.Running() != len(running) || len(running) > limit || q.Waiting() != len(waiting) || len(waiting) > most {
				t.Fatalf("seed %d: %d of %d running, %d of %d waiting", seed, len(running), limit, len(waiting), most)
			}
			if len(waiting) > 0 && len(running) < limit {
				t.Fatalf("seed %d: a place is empty and %d wait", seed, len(waiting))
			}
		}
		for len(running) > 0 {
			ticket := running[0]
			running = running[1:]
			q.Leave(now, ticket, true)
		}
		if len(waiting) > 0 || q.Running() > 0 {
			t.Fatalf("seed %d: %d wait for ever", seed, len(waiting))
		}
	}
	if displaced == 0 || late == 0 || quit == 0 {
		t.Errorf("vacuous: %d displaced, %d late, %d gone", displaced, late, quit)
	}
}

// A free place goes to the tenant with the fewest running, whichever has more waiting, and
// then they take turns.
func TestTenantsTakeTurns(t *testing.T) {
	for limit, want := range map[int]string{1: "habhabhhhh", 2: "ahbhbhhhha"} {
		q := fairqueue.New(fairqueue.Config{Limit: limit, Queue: 100, Wait: time.Hour})
		var running []fairqueue.Ticket
		for range limit {
			ticket, _ := q.Enter(0, "hog")
			running = append(running, ticket)
		}
		var order []byte
		var last fairqueue.Ticket
		for _, name := range []string{"hog", "hog", "hog", "hog", "hog", "hog", "a", "b", "a", "b"} {
			w := new(fairqueue.Waiter)
			w.Call = func(fairqueue.Refusal) { order = append(order, name[0]); last = w.Ticket }
			if r := q.Wait(0, name, 0, w); r.Why != fairqueue.Admitted {
				t.Fatal(r)
			}
		}
		for _, ticket := range running {
			q.Leave(ms, ticket, true)
		}
		for len(order) < 10 {
			q.Leave(ms, last, true)
		}
		if string(order) != want {
			t.Errorf("with %d places the order is %s, want %s", limit, order, want)
		}
	}
}

// Places that a Capacity withholds from everybody would never be waited for in vain.
func TestOnePlaceThereAlwaysIs(t *testing.T) {
	q := fairqueue.New(fairqueue.Config{Capacity: none{}, Queue: 1, Wait: time.Hour})
	ticket, ok := q.Enter(0, "")
	if !ok {
		t.Fatal("none is served at all")
	}
	called := false
	if r := q.Wait(0, "", 0, &fairqueue.Waiter{Call: func(fairqueue.Refusal) { called = true }}); r.Why != fairqueue.Admitted {
		t.Fatal(r)
	}
	q.Leave(ms, ticket, true)
	if !called {
		t.Error("the last one who waits is never called")
	}
}

type none struct{}

func (none) Acquire() (func(bool), bool) { return nil, false }
func (none) Limit() int                  { return 0 }

// The running request hangs, so no end of a request shows that the capacity has grown.
func TestGrownCapacityServesWaitingRequests(t *testing.T) {
	c := &places{most: 1}
	q := fairqueue.New(fairqueue.Config{Capacity: c, Queue: 10, Wait: time.Hour})
	if _, ok := q.Enter(0, ""); !ok {
		t.Fatal("a free place is refused")
	}
	served := 0
	for range 4 {
		if r := q.Wait(0, "", 0, &fairqueue.Waiter{Call: func(fairqueue.Refusal) { served++ }}); r.Why != fairqueue.Admitted {
			t.Fatal(r)
		}
	}
	c.most = 3
	if q.Serve(time.Second); served != 2 {
		t.Errorf("Serve has served %d requests in 2 free places", served)
	}
	c.most = 4
	if _, ok := q.Enter(time.Second, ""); ok || served != 3 {
		t.Errorf("a new request has overtaken the last one that waits: %v; %d are served, want 3", ok, served)
	}
	c.most = 6
	if _, ok := q.Enter(time.Second, ""); !ok || served != 4 {
		t.Errorf("a new request is served: %v, although 2 places are free and 1 request waits; %d are served, want 4", ok, served)
	}
	// The places were free a moment ago, so the time to come back does not count from the first request.
	if r := q.Wait(2*time.Second, "", 2*time.Second, new(fairqueue.Waiter)); r.Why != fairqueue.Admitted {
		t.Errorf("a request is refused: %+v", r)
	}
}

// places is a capacity of some places.
type places struct{ taken, most int }

func (p *places) Acquire() (func(bool), bool) {
	if p.taken >= p.most {
		return nil, false
	}
	p.taken++
	return func(bool) { p.taken-- }, true
}
func (p *places) Limit() int { return p.most }

// While nothing gets done, the time to come back grows.
func TestStuckQueueRaisesTheWait(t *testing.T) {
	q := fairqueue.New(fairqueue.Config{Limit: 1, Queue: 0, Wait: time.Hour})
	ticket, _ := q.Enter(0, "")
	q.Leave(10*ms, ticket, true)
	if _, ok := q.Enter(time.Minute, ""); !ok { // after a long time with nothing to do
		t.Fatal("not served")
	}
	before := time.Duration(0)
	for _, stuck := range []time.Duration{1 * ms, time.Second, 10 * time.Second} {
		r := q.Wait(time.Minute+stuck, "", 0, &fairqueue.Waiter{})
		if r.Why != fairqueue.Full || r.After < max(before+1, stuck) {
			t.Errorf("stuck for %v: %+v", stuck, r)
		}
		before = r.After
	}
}
