package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// boardOf is a board with endpoints of one tenant each, the numbers of which are their ids.
func boardOf(n int, change func(id int64, s *settings)) *board {
	b := newBoard(1 << 20)
	for id := int64(1); id <= int64(n); id++ {
		s := &settings{uid: fmt.Sprint("ep_", id), tenant: fmt.Sprint("t", id), concurrency: 4}
		if change != nil {
			change(id, s)
		}
		b.put(id, 0, 1, s, &health{})
		b.targets[id].window, b.targets[id].known = s.concurrency, true
		b.list(b.targets[id], time.Now())
	}
	return b
}

// begin begins so many deliveries of what is due of an ask, with these events.
func begin(t *testing.T, b *board, a ask, events ...int64) (list []*delivery) {
	t.Helper()
	for _, event := range events {
		d := &delivery{target: a.target, event: event, done: func() {}}
		if !b.isNew(a.target, event) {
			t.Errorf("event %d is on its way already", event)
		}
		if _, started := b.start(d); !started {
			t.Errorf("event %d of endpoint %d is not begun", event, a.target.id)
		}
		list = append(list, d)
	}
	return list
}

// only is the only ask that is due.
func only(t *testing.T, b *board) ask {
	t.Helper()
	asks, _ := b.due()
	if len(asks) != 1 {
		t.Fatalf("%d endpoints are asked for", len(asks))
	}
	return asks[0]
}

func (d *delivery) end(b *board, status int) {
	d.answer = answer{Attempt: Attempt{At: time.Now(), Status: status}}
	b.ended(d)
}

// TestWakeDuringClaim: an endpoint that is woken while a claim of it is under way is claimed again at once.
func TestWakeDuringClaim(t *testing.T) {
	b := boardOf(1, nil)
	a := only(t, b)
	b.wake("t1", bound{})
	if asks, _ := b.due(); len(asks) > 0 {
		t.Error("two claims of an endpoint are under way")
	}
	b.claimed(a, time.Now().Add(time.Hour))
	a = only(t, b)
	b.claimed(a, time.Now().Add(time.Hour))
	if asks, again := b.due(); len(asks) > 0 || time.Until(again) < time.Minute {
		t.Errorf("%d endpoints are asked for again without a wake, and then at %v", len(asks), again)
	}
}

// TestChangedDuringClaim: what a claim has found does not begin if the secret of its endpoint does not open any more, or if the endpoint has become an ordered one.
func TestChangedDuringClaim(t *testing.T) {
	b := boardOf(2, nil)
	asks, _ := b.due()
	first := begin(t, b, asks[0], 1)[0]
	first.end(b, 200) // it is not written down yet
	b.put(asks[0].target.id, 0, 2, &settings{concurrency: 4, ordered: true}, &health{})
	b.put(asks[1].target.id, 0, 2, &settings{concurrency: 4, broken: errors.New("another key")}, &health{})
	for i, what := range []string{"ordered", "broken"} {
		if _, started := b.start(&delivery{target: asks[i].target, event: 2}); started {
			t.Errorf("a delivery to an endpoint that is %s now has begun", what)
		}
	}
}

// TestSettledDuringClaim: a claim that began before an outcome was written down sees the row as it was before, and the next one does not.
func TestSettledDuringClaim(t *testing.T) {
	b := boardOf(1, nil)
	a := only(t, b)
	list := begin(t, b, a, 1, 2)
	b.claimed(a, time.Now())
	a = only(t, b)
	if a.want != 2 || a.limit != 4 {
		t.Errorf("%d deliveries of %d rows are asked for while two are on their way", a.want, a.limit)
	}
	list[0].end(b, 200)
	b.settled(list[0])
	if b.isNew(a.target, 1) || b.isNew(a.target, 2) {
		t.Error("the claim delivers again what it sees from before")
	}
	b.claimed(a, time.Now())
	a = only(t, b)
	if !b.isNew(a.target, 1) || b.isNew(a.target, 2) { // a person may have sent it again
		t.Error("what is written down is not forgotten, or what is not is")
	}
}

// TestPlaceGivenBack: while all places are taken no endpoint is asked for, and one that waits is asked for as soon as a request that has become slow gives its place back.
func TestPlaceGivenBack(t *testing.T) {
	b := boardOf(fastPlaces+1, func(_ int64, s *settings) { s.concurrency = 1 })
	var list []*delivery
	for {
		asks, again := b.due()
		if len(asks) == 0 {
			if !again.IsZero() || len(list) != fastPlaces {
				t.Fatalf("%d places are taken, and it looks again at %v", len(list), again)
			}
			break
		}
		for _, a := range asks {
			list = append(list, begin(t, b, a, 1)...)
			b.claimed(a, time.Now().Add(time.Hour))
		}
	}
	select {
	case <-b.woken:
	default:
	}
	b.isSlow(list[0])
	select {
	case <-b.woken:
	default:
		t.Error("the claimer is not woken")
	}
	only(t, b)
}

// TestUnsettledEndpointWaits: an endpoint many of whose outcomes are not written down yet waits for that, and then goes on.
func TestUnsettledEndpointWaits(t *testing.T) {
	b := boardOf(1, nil)
	var list []*delivery
	for event := int64(0); ; {
		asks, _ := b.due()
		if len(asks) == 0 {
			break
		}
		for range asks[0].want {
			event++
			d := begin(t, b, asks[0], event)[0]
			d.end(b, 200)
			list = append(list, d)
		}
		b.claimed(asks[0], time.Now())
	}
	if len(list) < unsettled || len(list) > unsettled+8 {
		t.Errorf("%d outcomes are not written down", len(list))
	}
	for _, d := range list {
		b.settled(d)
	}
	if a := only(t, b); len(a.target.flight) > 0 || a.limit != 4 {
		t.Errorf("%d rows are asked for, and %d are on their way", a.limit, len(a.target.flight))
	}
}

// TestPlacesAreSharedWithSlowEndpoints: slow requests give their places back, endpoints in trouble get half of the places, and a place that is given back is used.
func TestPlacesAreSharedWithSlowEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const endpoints = fastPlaces / 2
		b := boardOf(endpoints, func(_ int64, s *settings) { s.concurrency = 2 })
		var hang []*delivery
		for {
			asks, _ := b.due()
			if len(asks) == 0 {
				break
			}
			for _, a := range asks {
				for i := range a.want {
					if d := (&delivery{target: a.target, event: int64(i)}); b.isNew(a.target, d.event) {
						if _, started := b.start(d); started {
							hang = append(hang, d)
						}
					}
				}
				b.claimed(a, time.Now())
			}
		}
		if len(hang) != fastPlaces || b.fast != fastPlaces {
			t.Fatalf("%d requests are on their way, which have %d places", len(hang), b.fast)
		}
		for _, d := range hang {
			b.isSlow(d)
		}
		if b.fast != 0 || b.slow != fastPlaces {
			t.Errorf("%d requests hold a place, %d are slow", b.fast, b.slow)
		}
		for _, of := range b.targets {
			of.window = 4
			b.list(of, time.Now())
		}
		for event, before := int64(100), -1; b.fast > before; { // those that hang already have more to do
			before = b.fast
			asks, _ := b.due()
			for _, a := range asks {
				for range a.want {
					event++
					_, _ = b.start(&delivery{target: a.target, event: event})
				}
				b.claimed(a, time.Now())
			}
		}
		if b.fast != fastPlaces/2 {
			t.Errorf("endpoints in trouble have %d of %d places", b.fast, fastPlaces)
		}
		b.put(endpoints+1, 0, 1, &settings{tenant: "new", concurrency: 4}, &health{})
		asks, _ := b.due()
		if len(asks) == 0 || asks[0].target.id != endpoints+1 {
			t.Fatalf("a healthy endpoint is not asked for: %v", asks)
		}
		begin(t, b, asks[0], 1)
		for _, d := range hang {
			d.end(b, 0)
			b.isSlow(d) // too late
		}
		if b.slow != 0 || b.slowBytes != 0 {
			t.Errorf("%d slow requests are left of none", b.slow)
		}
	})
}

// TestWindowShrinksOnFailure: an endpoint that fails gets fewer deliveries at once, after five failures in a row one now and then, and after a success more again.
func TestWindowShrinksOnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(1, func(_ int64, s *settings) { s.concurrency = 8 })
		event := int64(0)
		try := func(want, status int) {
			t.Helper()
			a := only(t, b)
			if a.want != want {
				t.Errorf("%d deliveries are asked for, want %d", a.want, want)
			}
			event++
			d := begin(t, b, a, event)[0]
			b.claimed(a, time.Now())
			d.end(b, status)
			b.settled(d)
		}
		for _, want := range []int{8, 4, 2, 1, 1} {
			try(want, http.StatusInternalServerError)
		}
		for i := range 20 {
			pause := min(time.Second<<i, circuitMost)
			if asks, again := b.due(); len(asks) > 0 || time.Until(again) != pause {
				t.Fatalf("after %d failures it is tried again after %v, want %v", 5+i, time.Until(again), pause)
			}
			<-time.After(pause)
			if i < 19 {
				try(1, http.StatusInternalServerError)
			}
		}
		for _, want := range []int{1, 2, 3} {
			try(want, http.StatusNoContent)
		}
		if h := b.healthOf(b.targets[1]); h != (health{}) {
			t.Errorf("after successes it is still %+v", h)
		}
	})
}

// TestBeginsWithOne: of an endpoint that was not tried yet, one delivery is on its way.
func TestBeginsWithOne(t *testing.T) {
	b := newBoard(1 << 20)
	b.put(1, 0, 1, &settings{concurrency: 4}, &health{})
	if a := only(t, b); a.want != 1 {
		t.Errorf("%d deliveries are asked for", a.want)
	}
}

// TestCircuitCountsOnce: requests that were on their way when the circuit opened do not lengthen its pause.
func TestCircuitCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(1, func(_ int64, s *settings) { s.concurrency = 64 })
		a := only(t, b)
		var events []int64
		for i := range a.want {
			events = append(events, int64(i))
		}
		list := begin(t, b, a, events...)
		b.claimed(a, time.Now())
		for _, d := range list {
			d.end(b, http.StatusBadGateway)
			b.settled(d)
		}
		if h := b.healthOf(a.target); h.failures != circuitFailures || time.Until(h.until) != circuitFirst {
			t.Errorf("%d failures, and a pause of %v", h.failures, time.Until(h.until))
		}
	})
}

// TestOrderedIsAlone: an ordered endpoint has one delivery at a time, until its outcome is written down.
func TestOrderedIsAlone(t *testing.T) {
	b := boardOf(1, func(_ int64, s *settings) { s.ordered = true })
	a := only(t, b)
	d := begin(t, b, a, 1)[0]
	b.claimed(a, time.Now())
	b.wake("t1", bound{})
	if asks, _ := b.due(); len(asks) > 0 {
		t.Error("another one is asked for while the first is on its way")
	}
	d.end(b, 200)
	if asks, _ := b.due(); len(asks) > 0 {
		t.Error("another one is asked for before the outcome of the first is written down")
	}
	b.settled(d)
	only(t, b)
}

// TestRateBoundsDeliveries: an endpoint gets no more deliveries than its rate.
func TestRateBoundsDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(1, func(_ int64, s *settings) { s.rate = 10 })
		began, got := time.Now(), 0
		for time.Since(began) < 10*time.Second {
			asks, again := b.due()
			for _, a := range asks {
				for range a.want {
					got++
					d := begin(t, b, a, int64(got))[0]
					d.end(b, 200)
					b.settled(d)
				}
				b.claimed(a, time.Now())
			}
			if len(asks) == 0 {
				<-time.After(time.Until(again))
			}
		}
		if got < 95 || got > 111 {
			t.Errorf("%d deliveries in 10 s at 10 a second", got)
		}
	})
}

// TestEnabledMeanwhile: an endpoint that a person has enabled begins anew, also if that was read before this process knew that it was disabled, or between two lists.
func TestEnabledMeanwhile(t *testing.T) {
	b := boardOf(2, nil)
	enabled := func(id, version int64) {
		b.put(id, 0, version, &settings{uid: "ep", tenant: "t", concurrency: 4}, &health{})
	}
	b.put(1, 0, 2, &settings{tenant: "t", disabled: true}, &health{})
	enabled(1, 3)
	b.disable(b.targets[1]) // the answer to the statement comes late
	fails := begin(t, b, only(t, b), 1)[0]
	fails.target.failures, fails.target.stored = 4, true
	if read := b.keep(map[int64]int64{1: 3, 2: 1}); len(read) != 1 || read[0] != 1 {
		t.Errorf("%v are read again", read)
	}
	enabled(1, 3)
	enabled(2, 3)
	for id, of := range b.targets {
		if of.disabled || of.failures > 0 {
			t.Errorf("endpoint %d is disabled: %t, after %d failures", id, of.disabled, of.failures)
		}
	}
}

// TestLostPart: what is on its way stays known when its part has gone and comes back, so that it is not begun again meanwhile.
func TestLostPart(t *testing.T) {
	b := boardOf(1, nil)
	a := only(t, b)
	d := begin(t, b, a, 1)[0]
	b.claimed(a, time.Now())
	b.keep(map[int64]int64{})
	b.wake("t1", bound{})
	if asks, _ := b.due(); len(asks) > 0 {
		t.Error("an endpoint that another process holds is asked for")
	}
	if read := b.keep(map[int64]int64{1: 1}); len(read) != 1 {
		t.Error("how it is doing is not read again")
	}
	b.put(1, 0, 1, &settings{uid: "ep_1", tenant: "t1", concurrency: 4}, &health{})
	b.targets[1].window = 4
	b.wake("t1", bound{})
	a = only(t, b)
	if b.isNew(a.target, 1) {
		t.Error("what is on its way is begun again")
	}
	b.claimed(a, time.Now().Add(time.Hour))
	b.keep(map[int64]int64{})
	d.end(b, 200)
	b.settled(d)
	if len(b.targets) > 0 || len(b.tenants) > 0 || b.listed() > 0 {
		t.Errorf("%d endpoints, %d tenants and %d places in queues are left", len(b.targets), len(b.tenants), b.listed())
	}
}
