package webhook

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func (b *board) listed() (n int) {
	for _, q := range b.queues {
		n += len(q)
	}
	return n
}

// askAll claims until no endpoint is asked for, and finds nothing. It returns how many are asked for.
func askAll(b *board) (n int) {
	for {
		asks, _ := b.due()
		if len(asks) == 0 {
			return n
		}
		n += len(asks)
		for _, a := range asks {
			b.claimed(a, time.Now().Add(time.Hour))
		}
	}
}

// startAll begins deliveries with so many bytes to a target, and returns those that have begun.
func startAll(b *board, t *target, n int, bytes int64) (list []*delivery) {
	for i := range n {
		if d := (&delivery{target: t, event: int64(i), bytes: bytes}); b.started(d) {
			list = append(list, d)
		}
	}
	return list
}

func (b *board) started(d *delivery) bool {
	_, started := b.start(d)
	return started
}

// endAll ends requests, and writes their outcomes down.
func endAll(b *board, list []*delivery, status int) {
	for _, d := range list {
		d.end(b, status)
		b.settled(d)
	}
}

// TestAllAreAskedFor: endpoints that were due while there was no place, for any, for those in trouble, or for second requests of those, are all asked for when there are places
// again, and also later, when they are woken.
func TestAllAreAskedFor(t *testing.T) {
	const endpoints = 100
	for what, fill := range map[string]func(b *board, busy *target) []*delivery{
		"bytes": func(b *board, busy *target) []*delivery { return startAll(b, busy, 4, b.most/4) },
		"places for endpoints in trouble": func(b *board, busy *target) []*delivery {
			busy.concurrency, busy.window = fastPlaces, fastPlaces
			for _, other := range b.targets {
				if other != busy {
					other.failures = 1
					b.list(other, time.Now())
				}
			}
			return startAll(b, busy, fastPlaces/2, 0)
		},
		"room for slow ones": func(b *board, busy *target) []*delivery {
			list := startAll(b, busy, 4, b.most/8)
			for _, d := range list {
				b.isSlow(d)
			}
			for _, other := range b.targets {
				if other != busy {
					other.failures = 1
					b.list(other, time.Now())
					startAll(b, other, 1, 0)
				}
			}
			return list
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := boardOf(endpoints+1, nil)
				busy := b.targets[endpoints+1]
				list := fill(b, busy)
				before := askAll(b)
				endAll(b, list, 200)
				if after := askAll(b); before > 1 || before+after < endpoints+1 {
					t.Errorf("%d endpoints of %d are asked for while there is no room, and then %d", before, endpoints+1, after)
				}
				for id := range int64(endpoints) {
					b.wake(fmt.Sprint("t", id+1), bound{})
				}
				if n := askAll(b); n != endpoints {
					t.Errorf("%d endpoints of %d are asked for when they are woken", n, endpoints)
				}
			})
		})
	}
}

// TestBytesUnderWayAreBounded: deliveries with much data wait for each other, and not for slow ones. A slow one for which there is no room moves when there is.
func TestBytesUnderWayAreBounded(t *testing.T) {
	b := boardOf(3, nil)
	asks, _ := b.due()
	big := &delivery{target: asks[0].target, event: 1, bytes: 1 << 20}
	second := &delivery{target: asks[1].target, event: 2, bytes: 1 << 20}
	if !b.started(big) || b.started(second) {
		t.Fatal("the first is not begun, or the second is")
	}
	b.isSlow(big)
	if !b.started(second) {
		t.Error("a slow delivery keeps others waiting")
	}
	b.isSlow(second) // there is no room for it
	b.isSlow(second)
	if b.slowBytes != 1<<20 || b.fastBytes != 1<<20 || second.target.standing() != standingTrouble {
		t.Errorf("%d and %d bytes are on their way, and the second is to an endpoint that stands %d", b.fastBytes, b.slowBytes, second.target.standing())
	}
	big.end(b, 200)
	if b.slowBytes != 1<<20 || b.fastBytes != 0 {
		t.Errorf("when there is room, %d and %d bytes are on their way", b.fastBytes, b.slowBytes)
	}
	second.end(b, 200)
	if b.fast != 0 || b.slow != 0 || b.slowBytes != 0 || b.fastBytes != 0 || len(b.stuck) > 0 {
		t.Errorf("%d and %d requests are left of none", b.fast, b.slow)
	}
}

// TestLargeRequestsHang: endpoints that were never tried hang, with so much data that there is no room for it among the slow ones. They and those in trouble leave room to those that
// answer.
func TestLargeRequestsHang(t *testing.T) {
	const endpoints, answer = 100, 10
	b := boardOf(endpoints, nil)
	var hang []*delivery
	for round := range 10 {
		for id := int64(answer + 1); id <= endpoints; id++ {
			of := b.targets[id]
			of.known = of.slow > 0 // it will be in trouble
			b.list(of, time.Now())
			if d := (&delivery{target: of, event: int64(round), bytes: b.most / 16}); b.started(d) {
				hang = append(hang, d)
			}
		}
		for _, d := range hang { // a second is over
			b.isSlow(d)
		}
	}
	if len(b.stuck) == 0 {
		t.Fatalf("there is room for all %d that hang", len(hang))
	}
	for id := int64(1); id <= answer; id++ {
		d := &delivery{target: b.targets[id], event: 1, bytes: b.most / 16}
		if !b.started(d) {
			t.Fatalf("a delivery to an endpoint that answers does not begin while %d hang; %d bytes of %d are taken", len(hang), b.fastBytes, b.most)
		}
		endAll(b, []*delivery{d}, 200)
	}
	if n := len(hang); n < 16+8 || n > 16+12 {
		t.Errorf("%d requests hang; all of the room for slow ones has 16, and half to three quarters of the other are 8 to 12", n)
	}
}

// TestFewPlaces: with few places left, a claim asks for as many endpoints as ever of those that likely have nothing, and for as many as there are places of others.
func TestFewPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(2*askMost, func(_ int64, s *settings) { s.concurrency = 1 })
		b.fast = fastPlaces - 3
		asks, _ := b.due()
		if len(asks) != 3 {
			t.Errorf("%d endpoints are asked for, which were just woken, with 3 places left", len(asks))
		}
		for _, a := range asks {
			b.claimed(a, time.Now())
		}
		if n := askAll(b); n != 2*askMost {
			t.Errorf("%d endpoints are asked for", n)
		}
		<-time.After(time.Hour)
		if asks, _ := b.due(); len(asks) != askMost {
			t.Errorf("%d endpoints are asked for, for which nothing was found before, with 3 places left", len(asks))
		}
	})
}

// TestOneAlwaysBegins: however little MaxBytes allows, one delivery can begin, also one to an endpoint in trouble.
func TestOneAlwaysBegins(t *testing.T) {
	for most := range int64(4) {
		b := newBoard(most)
		b.put(1, 0, 1, &settings{concurrency: 4}, &health{failures: 1})
		list := startAll(b, b.targets[1], 2, 100)
		if len(list) != 1 {
			t.Fatalf("%d deliveries begin, with room for %d bytes", len(list), most)
		}
		b.isSlow(list[0])
		if b.slow != 1 {
			t.Error("a slow one keeps its place")
		}
	}
}

// TestNoEndpointTakesAll: an endpoint that answers gets no more than an eighth of the places, whatever its tenant asks for.
func TestNoEndpointTakesAll(t *testing.T) {
	b := newBoard(1 << 20)
	b.put(1, 0, 1, &settings{concurrency: 1000}, &health{})
	for range 1000 {
		b.targets[1].succeeded()
	}
	if a := only(t, b); a.want != fastPlaces/8 {
		t.Errorf("%d deliveries are asked for", a.want)
	}
}

// TestReadAheadIsBounded: events are read many at once, but never more than a quarter of MaxBytes could hold.
func TestReadAheadIsBounded(t *testing.T) {
	for _, c := range []struct {
		maxBytes      int64
		maxData, last int
		want          int
	}{{128 << 20, 256 << 10, 0, 128}, {128 << 20, 256 << 10, 1 << 20, 4}, {8 << 20, 1 << 20, 0, 2}, {1, 1 << 20, 0, 1}, {128 << 20, 1, 1 << 30, 1}} {
		r := &claimer{relay: &Relay{cfg: RelayConfig{MaxBytes: c.maxBytes}, hooks: &Config{MaxData: c.maxData}}, largest: c.last}
		if got := r.readable(); got != c.want {
			t.Errorf("%+v: %d events are read at once", c, got)
		}
	}
}
