package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
)

// again reports whether p retries f.
func again(t *testing.T, p *retry.Policy, f retry.FailedAttempt) bool {
	t.Helper()
	_, stop := p.Next(f)
	if stop != "" && stop != retry.ReasonOverBudget {
		t.Fatalf("%+v: %v", f, stop)
	}
	return stop == ""
}

// The fourth intent in a row is not retried, nor what is left of the first three. One
// success, and all are. Who waits for a second is at another time after half of it.
func TestFailuresInARow(t *testing.T) {
	b := &retry.Budget{}
	p := &retry.Policy{Budget: b}
	now := time.Hour
	silent := func(attempt int) bool {
		now += 600 * ms
		return again(t, p, retry.FailedAttempt{Attempt: attempt, Silent: -1, Begun: now - time.Second, Now: now})
	}
	for round := range 2 {
		for intent := range 3 {
			if !silent(1) {
				t.Errorf("round %d: %d failures before make a crowd", round, intent)
			}
		}
		if !silent(2) {
			t.Errorf("round %d: the second attempt, where two other intents have failed", round)
		}
		for range 20 {
			if silent(1) || silent(2) {
				t.Errorf("round %d: retried although three others have failed", round)
			}
		}
		if s := b.State(); s.Failing != 23 || s.Left < 1 {
			t.Errorf("round %d: %+v", round, s)
		}
		b.Succeed()
	}
	if s := b.State(); s.Failing != 0 || s.Spent != 8 || s.Refused != 80 {
		t.Errorf("%+v", s)
	}
}

// What is given up at about the same time is no crowd, however many they are. When their
// retries are given up as well, they are.
func TestFailuresAtOnce(t *testing.T) {
	p := &retry.Policy{Budget: &retry.Budget{Burst: 1000}}
	give := func(attempt int, from time.Duration) (retried int) {
		for i := range 100 {
			now := from + time.Duration(i)*4*ms
			if again(t, p, retry.FailedAttempt{Attempt: attempt, Silent: -1, Begun: now - time.Second, Now: now}) {
				retried++
			}
		}
		return retried
	}
	if n := give(1, time.Hour); n != 100 {
		t.Errorf("%d of 100 are retried", n)
	}
	if n := give(2, time.Hour+time.Second); n != 0 {
		t.Errorf("%d of 100 are retried once more", n)
	}
}

// An intent that fails alone has all its attempts, in a process that has just begun, too.
func TestLonelyFailure(t *testing.T) {
	p := &retry.Policy{Budget: &retry.Budget{}}
	for intent := range 2 {
		for attempt := 1; attempt < 5; attempt++ {
			if !again(t, p, retry.FailedAttempt{Attempt: attempt, Silent: p.Budget.Begin(0)}) {
				t.Errorf("intent %d: attempt %d was the last", intent+1, attempt)
			}
		}
	}
}

// What is known to be over at the other side is not in the way there, whatever else fails.
func TestCrowdsOfOtherClasses(t *testing.T) {
	for _, class := range []retry.Class{retry.ClassTransient, retry.ClassThrottled, retry.ClassInFlight, retry.ClassUnseen} {
		p := &retry.Policy{Budget: &retry.Budget{}}
		for i := range 10 {
			if !again(t, p, retry.FailedAttempt{Attempt: 1, Class: class}) {
				t.Errorf("%v: number %d is not retried", class, i+1)
			}
		}
		if n := p.Budget.State().Failing; n != 0 {
			t.Errorf("%v: %d count", class, n)
		}
	}
}

// A connection that breaks under many calls at once takes all of them with it: each has
// its retry, as far as the budget goes.
func TestABrokenConnectionIsNoCrowd(t *testing.T) {
	p := &retry.Policy{Budget: &retry.Budget{}, Base: -1}
	for i := range 10 {
		err := retry.Do(t.Context(), p, func(_ context.Context, attempt int) error {
			if attempt == 1 {
				return io.ErrUnexpectedEOF
			}
			return retry.Permanent(errors.New("enough")) // not a success
		})
		if err == nil || err.Error() != "enough" {
			t.Errorf("call %d is not retried: %v", i+1, err)
		}
	}
	if n := p.Budget.State().Failing; n != 0 {
		t.Errorf("%d count", n)
	}
}

// slowError is a timeout because it says so, as those of package net do.
type slowError struct{}

func (slowError) Error() string        { return "slow" }
func (slowError) Is(target error) bool { return target == context.DeadlineExceeded }

// The three before had no answer, and this one will have none.
func TestDoKnowsTimeouts(t *testing.T) {
	synctest.Test(t, doKnowsTimeouts)
}

func doKnowsTimeouts(t *testing.T) {
	timeouts := []error{slowError{}}
	for _, late := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		timeouts = append(timeouts, late, fmt.Errorf("read: %w", late), errors.Join(io.ErrUnexpectedEOF, late))
	}
	for _, err := range append(timeouts, io.ErrUnexpectedEOF) {
		p := &retry.Policy{Budget: &retry.Budget{}, Base: -1, Attempts: 2}
		for i := range 5 {
			attempts, want := 0, 2
			if i >= 3 && err != io.ErrUnexpectedEOF { //nolint:errorlint // the one that is none
				want = 1
			}
			_ = retry.Do(t.Context(), p, func(context.Context, int) error {
				attempts++
				<-time.After(200 * ms)
				return err
			})
			if attempts != want {
				t.Errorf("%v: call %d has made %d attempts, want %d", err, i+1, attempts, want)
			}
		}
	}
}

// What would not be retried anyway does not count: of two transports around each other
// only one asks.
func TestOnlyWhoAsksCounts(t *testing.T) {
	b := &retry.Budget{}
	for range 10 {
		(&retry.Policy{Budget: b, Attempts: 1}).Next(retry.FailedAttempt{Attempt: 1, Silent: -1})
		(&retry.Policy{Budget: b, Unsafe: true}).Next(retry.FailedAttempt{Attempt: 1, Silent: -1})
	}
	if n := b.State().Failing; n != 0 {
		t.Errorf("%d count", n)
	}
}

// A timeout is not retried, not even the first one, if those that were begun later are
// not answered either. Begun later is begun half the time later that it has waited.
func TestSilenceOfOthersStopsRetries(t *testing.T) {
	for _, c := range []struct {
		name     string
		later    int // attempts that were begun
		answered int // the number of the one that succeeded: 10 is the one that has failed
		again    bool
	}{
		{"no other is there", 0, 0, true},
		{"two are as silent", 2, 0, true},
		{"three are", 3, 0, false},
		{"many are", 30, 0, false},
		{"one before was answered", 3, 9, false},
		{"the next one was answered", 30, 11, true},
		{"the last one was answered", 30, 40, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &retry.Budget{}
			p := &retry.Policy{Budget: b}
			for range 10 {
				b.Begin(0)
			}
			for range c.later {
				b.Begin(500 * ms)
			}
			if c.answered > 0 {
				b.Answered(int64(c.answered))
				b.Answered(1) // an old one that was slow says nothing
			}
			if a := again(t, p, retry.FailedAttempt{Attempt: 1, Silent: 10, Now: time.Second}); a != c.again {
				t.Errorf("retried: %v", a)
			}
			if b.Succeed(); b.State().Failing != 0 {
				t.Error("a success, and it fails still")
			}
			if !again(t, p, retry.FailedAttempt{Attempt: 1}) {
				t.Error("one that was answered, with a failure, counts as silent")
			}
			if b.Burst = -1; !again(t, p, retry.FailedAttempt{Attempt: 1, Silent: 1}) {
				t.Error("a budget without a limit has one")
			}
		})
	}
}

// Whatever the order in which callers meet, the latest one that has succeeded is known.
func TestSilenceConcurrently(t *testing.T) {
	b := &retry.Budget{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				b.Answered(b.Begin(0))
			}
		})
	}
	wg.Wait()
	for range 10 {
		b.Begin(time.Second)
	}
	p := &retry.Policy{Budget: b}
	if !again(t, p, retry.FailedAttempt{Attempt: 1, Silent: 7999}) || again(t, p, retry.FailedAttempt{Attempt: 1, Silent: 8001}) {
		t.Error("the 8000th was answered, and none after it")
	}
}
