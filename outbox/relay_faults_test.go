package outbox

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/hold"
	"github.com/oncelib/once/retry"
)

var errDown = errors.New("down")

func takesAll(context.Context, []Message) []error { return nil }

// laneOf returns a lane of a relay on an empty database, which holds a part.
func laneOf(cfg RelayConfig) (*lane, *part) {
	r := newRelay(new(emptyDatabase), PublisherFunc(takesAll), cfg)
	l := r.lanes[0]
	p := newPart(hold.Part{Number: 0, Fence: 1})
	l.parts, l.order = map[int]*part{0: p}, []*part{p}
	r.holder = allParts{}
	return l, p
}

// TestWaitForDestination: what a destination that is down asks for is heeded, within bounds, and waiting costs nothing.
func TestWaitForDestination(t *testing.T) {
	budget := &retry.Budget{}
	l, _ := laneOf(RelayConfig{Policy: &retry.Policy{Attempts: 2, Base: time.Millisecond, Cap: 10 * time.Millisecond, Budget: budget}})
	before := budget.State()
	for range 100 {
		if d := l.relay.wait(1, Unavailable(retry.After(errDown, time.Minute))); d < time.Minute {
			t.Fatalf("it is tried after %v", d)
		}
	}
	if d := l.relay.wait(1, Unavailable(retry.After(errDown, 1000*time.Hour))); d > 2*maxAfter {
		t.Errorf("it is tried after %v", d)
	}
	for times := range 100 {
		if d := l.relay.wait(times+1, Unavailable(errDown)); d < minIdle || d > 10*time.Millisecond {
			t.Errorf("it is tried after %v", d)
		}
	}
	if after := budget.State(); after != before {
		t.Errorf("the budget was %+v, and is %+v", before, after)
	}
}

// TestPublisherEndsItsGoroutine: what a publisher has not answered is not delivered.
func TestPublisherEndsItsGoroutine(t *testing.T) {
	l, _ := laneOf(RelayConfig{})
	l.relay.publisher = PublisherFunc(func(context.Context, []Message) []error {
		runtime.Goexit()
		return nil
	})
	errs := l.relay.publish(t.Context(), make([]Message, 2))
	if len(errs) != 2 || errs[0] == nil || errs[1] == nil || !strings.Contains(errs[0].Error(), "runtime.Goexit") {
		t.Errorf("the answer is %v", errs)
	}
}

// TestTopicDown: a topic is put aside for longer each time, and lanes hear when it is back.
func TestTopicDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics := newTopics(map[string]TopicConfig{"bounded": {Concurrency: 2}})
		for _, name := range []string{"bounded", "other"} {
			seconds := func(times int) time.Duration { return time.Duration(times) * time.Second }
			returns := topics.returns.Load()
			for times := range 3 {
				topics.down(name, false, seconds)
				topics.down(name, false, seconds) // another lane
				if n, _ := topics.take(name, 5); n != 0 || !topics.isBusy(name) || len(topics.busy()) != 1 {
					t.Errorf("%s: %d of its messages are taken while it is down", name, n)
				}
				<-time.After(time.Duration(times+1)*time.Second - 1)
				if !topics.isBusy(name) {
					t.Errorf("%s is tried too early", name)
				}
				<-time.After(1)
				if topics.isBusy(name) || len(topics.busy()) != 0 {
					t.Errorf("%s is not tried", name)
				}
			}
			topics.down(name, true, seconds) // some of its messages were confirmed
			<-time.After(time.Second)
			if n, release := topics.take(name, 5); n != 5 {
				t.Errorf("%s: %d of its messages are taken", name, n)
			} else {
				release()
			}
			topics.up(name)
			topics.up(name)
			if n := topics.returns.Load() - returns; n != 1 {
				t.Errorf("%s was back %d times", name, n)
			}
		}
		if len(topics.known) != 1 {
			t.Errorf("%d topics are remembered", len(topics.known))
		}
	})
}

// TestRewind: when a topic is back, all lanes read what the marks have passed.
func TestRewind(t *testing.T) {
	l, p := laneOf(RelayConfig{})
	p.mark, p.old, p.next = 7, 5, 6
	l.relay.topics.down("t", false, func(int) time.Duration { return 0 })
	l.relay.topics.up("t")
	if _, err := l.work(t.Context()); err != nil || p.mark != 0 || p.swept(false) != 0 {
		t.Errorf("%v: the mark is %d", err, p.mark)
	}
}

// TestBusySweep: what a sweep has left out because its topic is busy is looked for soon.
func TestBusySweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := laneOf(RelayConfig{Topics: map[string]TopicConfig{"slow": {Rate: 1}}})
		p.mark = 10
		_, release := l.relay.topics.take("slow", 1)
		defer release()
		if _, err := l.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Until(l.sweepAt); !l.waits || d > throttled || d <= 0 {
			t.Errorf("the next sweep is in %v; something waits: %t", d, l.waits)
		}
		if _, err := l.work(t.Context()); err != nil || !l.waits {
			t.Errorf("%v; forgotten before the next sweep", err)
		}
		<-time.After(time.Second)
		if _, err := l.work(t.Context()); err != nil || l.waits || time.Until(l.sweepAt) < sweeps {
			t.Errorf("%v: nothing is busy, and the next sweep is in %v", err, time.Until(l.sweepAt))
		}
	})
}

// TestSilentPublisher: a publisher that does not return is bad news for a breaker.
func TestSilentPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		b := new(toldBreaker)
		r := newRelay(new(emptyDatabase), PublisherFunc(func(context.Context, []Message) []error { <-never; return nil }), RelayConfig{Breaker: b})
		if errs := r.publish(t.Context(), make([]Message, 1)); !errors.Is(errs[0], errSilent) {
			t.Error(errs)
		}
		close(never)
		if len(b.told) != 1 || b.told[0] != retry.HealthBad {
			t.Errorf("the breaker was told %v", b.told)
		}
	})
}

type toldBreaker struct{ told []retry.Health }

func (b *toldBreaker) Allow() (func(retry.Health), error) {
	return func(h retry.Health) { b.told = append(b.told, h) }, nil
}

// brokenHolder cannot work.
type brokenHolder struct{ allParts }

func (brokenHolder) Run(context.Context, func()) error { return errDown }

// TestBrokenHolder: a relay that cannot hold parts does not end as if all were well.
func TestBrokenHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay(new(emptyDatabase), PublisherFunc(takesAll), RelayConfig{})
		r.holder = brokenHolder{}
		if err := r.Run(t.Context()); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("Run returns %v", err)
		}
	})
}

// TestStoppedMessages: messages that wait for a person keep no others of their part back, until there are very many. Then a
// person is told, once.
func TestStoppedMessages(t *testing.T) {
	e := new(countedEvents)
	l, p := laneOf(RelayConfig{Observer: e})
	claims := func(n int) {
		t.Helper()
		db := l.relay.db.(*emptyDatabase)
		before := db.claims.Load()
		for range 3 {
			if _, err := l.claim(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := db.claims.Load() - before; got != int64(n) {
			t.Errorf("%d claims, want %d", got, n)
		}
	}
	for id := range int64(maxStopped) {
		if id == 5*maxFailures {
			claims(3)
		}
		p.fail(&failure{id: id, stream: stream{"t", "k"}})
	}
	if claims(0); e.n != 1 || e.last.Type != EventStopped || e.last.Err == nil {
		t.Errorf("%d events, the last one: %+v", e.n, e.last)
	}
	p.free(p.failure(7))
	claims(3)
	for id := range int64(maxFailures) {
		p.fail(&failure{id: id, due: time.Now()}) // Resume
	}
	claims(0)
	if e.n != 1 || len(p.failing)+len(p.stopped) != maxStopped {
		t.Errorf("%d events; %d and %d failures", e.n, len(p.failing), len(p.stopped))
	}
}

type countedEvents struct {
	n    int
	last Event
}

func (c *countedEvents) Observe(_ context.Context, e Event) { c.n, c.last = c.n+1, e }
