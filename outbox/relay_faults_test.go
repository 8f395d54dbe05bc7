package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
)

var errDown = errors.New("down")

func takesAll(context.Context, []message.Message) []error { return nil }

func emptyRelay(cfg RelayConfig) *Relay {
	return newRelay(new(emptyDatabase), PublisherFunc(takesAll), cfg)
}

// TestWaitForDestination: what a destination that is down asks for is heeded, within bounds, and waiting costs nothing.
func TestWaitForDestination(t *testing.T) {
	budget := &retry.Budget{}
	r := emptyRelay(RelayConfig{Policy: &retry.Policy{Attempts: 2, Base: time.Millisecond, Cap: 10 * time.Millisecond, Budget: budget}})
	before := budget.State()
	for range 100 {
		if d := r.wait(1, Unavailable(retry.After(errDown, time.Minute))); d < time.Minute {
			t.Fatalf("it is tried after %v", d)
		}
	}
	if d := r.wait(1, Unavailable(retry.After(errDown, 1000*time.Hour))); d > 2*maxAfter {
		t.Errorf("it is tried after %v", d)
	}
	for times := range 100 {
		if d := r.wait(times+1, Unavailable(errDown)); d < minIdle || d > 10*time.Millisecond {
			t.Errorf("it is tried after %v", d)
		}
	}
	if after := budget.State(); after != before {
		t.Errorf("the budget was %+v, and is %+v", before, after)
	}
}

// TestPublisherEndsItsGoroutine: what a publisher has not answered is not delivered.
func TestPublisherEndsItsGoroutine(t *testing.T) {
	r := emptyRelay(RelayConfig{})
	r.publisher = PublisherFunc(func(context.Context, []message.Message) []error {
		runtime.Goexit()
		return nil
	})
	errs, _ := r.publish(t.Context(), make([]message.Message, 2))
	if len(errs) != 2 || errs[0] == nil || errs[1] == nil || !strings.Contains(errs[0].Error(), "runtime.Goexit") {
		t.Errorf("the answer is %v", errs)
	}
}

// badError is an error whose methods panic for a nil pointer, as those of most types do.
type badError struct{ text string }

func (e *badError) Error() string { return e.text }

func (e *badError) Unwrap() error { return errors.New(e.text) }

// TestPublisherReturnsNilPointers: an error that cannot be read is a failure of its message alone. Most often it is a nil pointer in place of nil.
func TestPublisherReturnsNilPointers(t *testing.T) {
	r := emptyRelay(RelayConfig{})
	told := []error{(*badError)(nil), nil, fmt.Errorf("refused: %w", (*badError)(nil)), errDown}
	r.publisher = PublisherFunc(func(context.Context, []message.Message) []error { return told })
	errs, _ := r.publish(t.Context(), make([]message.Message, len(told)))
	for i, want := range []string{"*outbox.badError, whose methods panic", "", "whose methods panic", errDown.Error()} {
		if got := fmt.Sprint(errs[i]); errs[i] == nil != (want == "") || !strings.Contains(got, want) {
			t.Errorf("error %d is %s", i, got)
		}
	}
}

// TestDestinationAsksForYears: a destination puts a message off for a day at most, and a jitter.
func TestDestinationAsksForYears(t *testing.T) {
	wait, stopped := emptyRelay(RelayConfig{}).next(&failure{attempts: 1, since: time.Now()}, retry.After(errDown, 100*365*24*time.Hour))
	if stopped || wait > 2*maxAfterOfKey {
		t.Errorf("it waits for %v, and has stopped: %v", wait, stopped)
	}
}

// TestSilentPublisher: a publisher that does not return is bad news for a breaker.
func TestSilentPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		b := new(toldBreaker)
		r := newRelay(new(emptyDatabase), PublisherFunc(func(context.Context, []message.Message) []error { <-never; return nil }), RelayConfig{Breaker: b})
		if errs, unanswered := r.publish(t.Context(), make([]message.Message, 1)); !errors.Is(errs[0], errSilent) || unanswered == nil {
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
type brokenHolder struct{ everyPart }

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
