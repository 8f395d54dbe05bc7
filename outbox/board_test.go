package outbox

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/retry"
)

// boardOf is a board that holds all parts, and knows all of their failures.
func boardOf(cfg RelayConfig) *board {
	r := emptyRelay(cfg)
	held, _ := everyPart{}.Use(allParts)
	r.board.hold(held)
	r.board.know(held)
	return r.board
}

// find has a topic of a board have messages up to id in a part.
func (b *board) find(name string, part int, id int64) *queue {
	b.foundRows(name, part, id, id, false, time.Now())
	return b.held(name, part)
}

// read ends a unit that has read so many messages of each queue, all with an outcome.
func (b *board) read(u *unit, n int, of outcome) {
	for _, q := range u.queues {
		for i := range n {
			it := &item{queue: q, outcome: of, sent: true}
			it.id = q.mark + 1 + int64(i)
			u.items = append(u.items, it)
		}
	}
	b.release(u)
	b.finished(u)
}

// picked are the topics that can be picked.
func (b *board) picked(t *testing.T, c class) (units []*unit, names string) {
	t.Helper()
	units, _ = b.pick(c)
	for _, u := range units {
		names += u.topic.name + " "
	}
	return units, names
}

// TestTopicThatIsNotReady: a topic that is down, paused, out of tokens or at its Concurrency is not picked, and its marks do not
// move; others are picked meanwhile.
func TestTopicThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, stop := range map[string]func(b *board, x *topic){
			"down": func(b *board, x *topic) {
				b.isDown(x, true, 1, func(int) time.Duration { return time.Hour })
			},
			"paused":      func(b *board, _ *topic) { b.setPaused(map[stream]struct{}{{topic: "x"}: {}}) },
			"tokens":      func(_ *board, x *topic) { x.Rate, x.tokens, x.counted = 0.001, 0, time.Now() },
			"concurrency": func(_ *board, x *topic) { x.calls = x.Concurrency },
		} {
			b := boardOf(RelayConfig{Batch: 100})
			q := b.find("x", 3, 5000)
			stop(b, q.topic)
			for i := range 50 {
				b.find("y", 7, int64(5000+i))
				for _, c := range []class{classHealthy, classTrouble} {
					units, _ := b.pick(c)
					for _, u := range units {
						if u.topic.name == "x" {
							t.Fatalf("%s: it is picked", name)
						}
						b.read(u, 1, outcomeDelivered)
					}
				}
				b.foundRows("x", 3, 2, int64(5000+i), true, time.Now())
				<-time.After(10 * time.Millisecond)
			}
			if other := b.held("y", 7); q.mark != 0 || other.mark < 50 {
				t.Errorf("%s: the marks are %d and %d", name, q.mark, other.mark)
			}
		}
	})
}

// TestUnitHoldsOneTopic: a unit of work holds queues of one topic, and all other topics go on while it lasts.
func TestUnitHoldsOneTopic(t *testing.T) {
	b := boardOf(RelayConfig{Concurrency: 1})
	for part := range 4 {
		b.find("hangs", part, 10)
	}
	hangs, names := b.picked(t, classHealthy)
	if names != "hangs " || len(hangs[0].queues) != 4 {
		t.Fatal(names)
	}
	for i := range 100 {
		b.find("hangs", i%4, 5000)
		for part := range 4 {
			b.find("other", part, int64(i+1))
		}
		units, names := b.picked(t, classHealthy)
		if names != "other " {
			t.Fatalf("%d: %q is picked", i, names)
		}
		b.read(units[0], 1, outcomeDelivered)
	}
}

// TestCallsAreBounded: calls of Publish that do not return take neither all calls of the process nor those of other topics, whether their
// topics have answered before or not.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for answered, most := range map[bool]int{false: maxUnknown, true: maxCalls / 2} {
			b := boardOf(RelayConfig{})
			b.find("healthy", 5, 1)
			units, _ := b.picked(t, classHealthy)
			b.isUp(units[0].topic, true)
			b.read(units[0], 1, outcomeDelivered)
			hanging := 0
			for i := range 2 * maxCalls {
				q := b.find(fmt.Sprint("hangs", i), i%64, 1)
				if q.topic.answered = answered; answered {
					b.isDown(q.topic, false, 1, func(int) time.Duration { return 0 })
				}
				for _, c := range []class{classHealthy, classTrouble} {
					units, _ := b.picked(t, c)
					hanging += len(units)
				}
			}
			if hanging != most {
				t.Errorf("%d calls hang, want %d", hanging, most)
			}
			<-time.After(time.Minute)
			for i := range 100 {
				b.find("healthy", 5, int64(i+2))
				units, names := b.picked(t, classHealthy)
				if names != "healthy " {
					t.Fatalf("%q is picked", names)
				}
				b.read(units[0], 1, outcomeDelivered)
			}
		}
	})
}

// TestSlowTopicsCountAsTrouble: healthy topics whose calls begin to hang leave half of the calls to others.
func TestSlowTopicsCountAsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(RelayConfig{})
		pickAll := func() (n int) {
			for {
				units, _ := b.pick(classHealthy)
				if len(units) == 0 {
					return n
				}
				n += len(units)
			}
		}
		for i := range maxCalls / 2 {
			b.find(fmt.Sprint("slow", i), 0, 1).topic.answered = true
			pickAll()
		}
		<-time.After(2 * slowCall)
		for i := range maxCalls / 2 {
			b.find(fmt.Sprint("slow", i), 1, 1)
		}
		if n := pickAll(); n != 0 {
			t.Errorf("%d more calls of topics that hang", n)
		}
		b.find("healthy", 2, 1).topic.answered = true
		if n := pickAll(); n != 1 {
			t.Errorf("%d calls of a topic that does not", n)
		}
	})
}

// TestTopicsThatBeginToHang: hundreds of topics that were well and begin to hang together leave calls to others in the first second, too.
func TestTopicsThatBeginToHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(RelayConfig{Batch: 1})
		hanging := 0
		for i := range 300 * 4 {
			b.find(fmt.Sprint("hangs", i/4), i%4, 1).topic.answered = true
		}
		for units, _ := b.pick(classHealthy); len(units) > 0; units, _ = b.pick(classHealthy) {
			hanging += len(units)
		}
		if hanging != maxCalls/2 {
			t.Errorf("%d calls hang, want %d", hanging, maxCalls/2)
		}
		b.find("healthy", 5, 1).topic.answered = true
		if _, names := b.picked(t, classHealthy); names != "healthy " {
			t.Errorf("%q is picked", names)
		}
	})
}

// TestIdleTopicComesFirst: a topic that was idle does not wait for thousands that have a backlog.
func TestIdleTopicComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(RelayConfig{Batch: 100})
		quiet := b.find("quiet", 1, 1)
		units, _ := b.picked(t, classHealthy)
		b.isUp(quiet.topic, true)
		b.read(units[0], 1, outcomeDelivered)
		<-time.After(time.Second)
		for i := range 10_000 {
			b.find(fmt.Sprint(i), i%64, 1000)
		}
		b.find("quiet", 1, 2)
		if units, names := b.picked(t, classHealthy); units[0].topic.name != "quiet" || len(units) < 2 {
			t.Errorf("%q are picked", names)
		}
	})
}

// TestLateCommit: what commits at or below the mark is read, whether its queue is in use meanwhile or not.
func TestLateCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(RelayConfig{})
		q := b.find("x", 3, 1)
		b.foundRows("x", 3, 90, 100, false, time.Now())
		units, _ := b.picked(t, classHealthy)
		it := &item{queue: q, outcome: outcomeDelivered}
		it.id = 100
		units[0].items = []*item{it}
		b.foundRows("x", 3, 100, 100, false, time.Now())
		b.release(units[0])
		b.finished(units[0])
		if q.mark != 100 {
			t.Fatalf("the mark is %d", q.mark)
		}
		before := time.Now()
		<-time.After(time.Second)
		b.foundRows("x", 3, 40, 40, true, before.Add(-time.Millisecond)) // it was read before it was deleted
		if units, _ := b.picked(t, classHealthy); len(units) > 0 || q.mark != 100 {
			t.Errorf("what was delivered is read: the mark is %d", q.mark)
		}
		b.foundRows("x", 3, 40, 40, true, time.Now())
		units, _ = b.picked(t, classHealthy)
		if len(units) != 1 || units[0].ranges[0].low >= 40 {
			t.Fatal("a late commit is not read")
		}
		b.foundRows("x", 3, 20, 20, false, time.Now())
		b.release(units[0])
		b.finished(units[0])
		if units, _ := b.picked(t, classHealthy); len(units) != 1 || units[0].ranges[0].low >= 20 {
			t.Error("a late commit is not read that was seen while its queue was in use")
		}
	})
}

// TestClaimsBeginAMomentAgo: a claim reads again what the mark has passed in the last moment.
func TestClaimsBeginAMomentAgo(t *testing.T) {
	q, now := new(queue), time.Now()
	for i := range int64(100) {
		q.move(i+1, now.Add(time.Duration(i)*10*time.Millisecond))
	}
	if q.mark != 100 || q.low() > 90 || q.low() < 70 {
		t.Errorf("at %d it begins at %d", q.mark, q.low())
	}
}

// TestTopicStopsAtFailures: a queue with too many failing messages is not read, other topics are, and it is told once. Retries go on.
func TestTopicStopsAtFailures(t *testing.T) {
	b := boardOf(RelayConfig{Batch: 10_000})
	q := b.find("bad", 3, 5000)
	units, _ := b.picked(t, classHealthy)
	for i := range maxFailing {
		it := &item{queue: q, outcome: outcomeFailed, nextAt: time.Now().Add(time.Hour), sent: true}
		it.id = int64(i + 1)
		units[0].items = append(units[0].items, it)
	}
	b.release(units[0])
	b.finished(units[0])
	if !b.newlyFull(q.topic) || b.newlyFull(q.topic) {
		t.Error("it is not told once")
	}
	b.find("good", 3, 10)
	if _, names := b.picked(t, classHealthy); names != "good " {
		t.Errorf("%q are picked", names)
	}
	units, names := b.picked(t, classTrouble)
	if names != "bad " || units[0].work != workRetry {
		t.Fatalf("%q are picked in trouble", names)
	}
	items := []*item{{queue: q, outcome: outcomeDelivered, failure: new(failure)}}
	units[0].items = items
	b.release(units[0])
	b.finished(units[0])
	if q.full() {
		t.Error("it is full with fewer failures")
	}
}

// TestFoundFailures: a part is not read before its queues with failures are known, and a failure that was deleted is forgotten.
func TestFoundFailures(t *testing.T) {
	r := emptyRelay(RelayConfig{})
	b := r.board
	held, _ := everyPart{}.Use(allParts)
	b.hold(held)
	b.foundRows("x", 3, 1, 1, true, time.Now())
	if units, _ := b.pick(classHealthy); len(units) > 0 {
		t.Error("a part is read whose failures are not known")
	}
	b.foundFailures(map[queueKey]int{{"x", 3}: 7}, time.Now())
	b.know(b.unknownParts())
	q := b.held("x", 3)
	if b.foundRows("x", 3, 1, 1, true, time.Now()); !q.failed || q.failing != 7 || !q.topic.inTrouble() {
		t.Errorf("%+v", q)
	}
	if b.foundFailures(nil, time.Now()); q.failed || !q.waiting {
		t.Errorf("%+v", q)
	}
}

// TestPagesUntilNothingWaits: what waits at or below the mark is read by pages, until a pass finds nothing.
func TestPagesUntilNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(RelayConfig{})
		q := b.held("x", 3)
		q.mark, q.tail, q.waiting = 1000, 1000, true
		for pass, rows := range []int{300, 10, 0} {
			for rows >= 0 {
				b.list(q.topic, time.Now())
				units, again := b.pick(classTrouble)
				if len(units) == 0 {
					<-time.After(time.Until(again))
					continue
				}
				u := units[0]
				if u.work != workPage || u.ranges[0].high != q.mark || u.ranges[0].rows > pageRows {
					t.Fatalf("pass %d: %+v", pass, u)
				}
				n := min(rows, u.ranges[0].rows)
				for i := range n {
					it := &item{queue: q, outcome: outcomeWaits}
					it.id = u.ranges[0].low + 1 + int64(i)
					u.items = append(u.items, it)
				}
				if rows -= n; n < u.ranges[0].rows {
					rows = -1
				}
				b.release(u)
				b.finished(u)
			}
		}
		if q.waiting || q.mark != 1000 {
			t.Errorf("%+v", q)
		}
	})
}

// TestTopicDown: a topic that is down is tried with one message. One that is alone is tried again within a second, and many of them
// one after the other; when one is there again, others are tried at once.
func TestTopicDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := func(int) time.Duration { return time.Hour }
		b := boardOf(RelayConfig{})
		q := b.find("x", 3, 1000)
		b.isDown(q.topic, false, 1, long)
		b.pick(classHealthy) // it leaves the list of healthy topics
		<-time.After(probeMost)
		units, _ := b.picked(t, classTrouble)
		if len(units) != 1 || units[0].most != 1 || units[0].ranges[0].rows != 1 {
			t.Fatalf("%d units", len(units))
		}
		b.read(units[0], 1, outcomeLeft)
		if b.isDown(q.topic, false, 1, long); q.mark != 0 || q.topic.down != 2 {
			t.Errorf("the mark is %d after %d times", q.mark, q.topic.down)
		}
		const others = 1000
		for i := range others {
			b.isDown(b.find(fmt.Sprint(i), 5, 10).topic, i == 0, 1, long)
		}
		last := b.held(fmt.Sprint(others-1), 5).topic
		if d := time.Until(last.until); d < others*probeEach/2 || d > time.Minute {
			t.Errorf("the last of many is tried in %v", d)
		}
		if d := time.Until(b.held("0", 5).topic.until); d != time.Hour {
			t.Errorf("a topic that has asked for an hour is tried in %v", d)
		}
		for range others {
			b.pick(classHealthy)
		}
		b.isUp(q.topic, true)
		if units, _ := b.picked(t, classTrouble); len(units) < revived/2 || b.downs != others {
			t.Errorf("%d topics are tried when one is there again; %d are down", len(units), b.downs)
		}
	})
}

// TestOutageIsManyFailures: many first attempts that all fail are an outage of the destination. Fewer are not, and neither are
// second attempts, or messages that the destination will never take.
func TestOutageIsManyFailures(t *testing.T) {
	for name, c := range map[string]struct {
		n      int
		change func(items []*item)
		want   bool
	}{
		"many":             {probeRows, func([]*item) {}, true},
		"few":              {probeRows - 1, func([]*item) {}, false},
		"second attempts":  {probeRows, func(items []*item) { items[3].failure = new(failure) }, false},
		"permanent errors": {probeRows, func(items []*item) { items[3].err = retry.Permanent(errDown) }, false},
	} {
		var items []*item
		for range c.n {
			items = append(items, &item{outcome: outcomeFailed, err: errDown, sent: true})
		}
		c.change(items)
		err := outage(items)
		if got := err != nil; got != c.want || got && (!errors.Is(err, errDown) || !IsUnavailable(err)) {
			t.Errorf("%s: %v", name, err)
		}
		if want := outcomeFailed; c.want != (items[0].outcome != want) {
			t.Errorf("%s: the outcome is %d", name, items[0].outcome)
		}
	}
}

// TestProbeGrows: a topic that is down although no error says so is tried with more messages each time, because those that were tried may all be
// bad.
func TestProbeGrows(t *testing.T) {
	b := boardOf(RelayConfig{Batch: 100})
	x := b.find("x", 3, 1000).topic
	last := 0
	for range 5 {
		n := b.nextProbe(x)
		if n < probeRows || n > 100 || n <= last && n < 100 {
			t.Errorf("%d messages after %d", n, last)
		}
		b.isDown(x, false, n, func(int) time.Duration { return -1 })
		last = n
	}
}

// TestRateIsKept: a topic with a backlog gets as many messages as its rate allows, and no fewer.
func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, seconds = 500, 20
		b := boardOf(RelayConfig{Topics: map[string]TopicConfig{"x": {Rate: rate}}})
		q := b.find("x", 3, math.MaxInt32)
		began, n := time.Now(), 0
		for time.Since(began) < seconds*time.Second {
			units, again := b.pick(classHealthy)
			for _, u := range units {
				n += u.most
				b.read(u, u.most, outcomeDelivered)
				q.tail = math.MaxInt32
			}
			if len(units) == 0 {
				<-time.After(max(time.Millisecond, time.Until(again)))
			}
		}
		if most := rate * (seconds + 1); n > most || n < most*95/100 {
			t.Errorf("%d messages, want %d", n, most)
		}
	})
}

// TestLostPart: the queues of a part that is lost are not read any more, also if they were in use then.
func TestLostPart(t *testing.T) {
	b := boardOf(RelayConfig{})
	q := b.find("x", 3, 1000)
	units, _ := b.picked(t, classHealthy)
	held, _ := everyPart{}.Use(allParts)
	held[3].Fence++
	if !b.hold(held) {
		t.Error("a new fence is no change")
	}
	b.read(units[0], 1, outcomeDelivered)
	if units, _ := b.picked(t, classHealthy); len(units) > 0 || len(q.topic.queues) > 0 || !q.gone {
		t.Errorf("%d units", len(units))
	}
	b.know([]hold.Part{held[3]})
	b.find("x", 3, 1000)
	if units, _ := b.picked(t, classHealthy); len(units) != 1 || units[0].ranges[0].low != 0 {
		t.Error("the part is not read from its beginning")
	}
}
