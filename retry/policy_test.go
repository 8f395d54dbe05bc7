package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/oncelib/once/retry"
)

const ms = time.Millisecond

// The decision is a function: each line is one call of it.
func TestNextDecidesPauseOrStop(t *testing.T) {
	almost := math.Nextafter(1, 0)
	for _, c := range []struct {
		name   string
		policy retry.Policy
		f      retry.FailedAttempt
		least  time.Duration
		most   time.Duration
		stop   retry.Reason
	}{
		{"the first pause may be none", retry.Policy{}, retry.FailedAttempt{Attempt: 1}, 0, 0, ""},
		{"the first pause ends before 100 ms", retry.Policy{}, retry.FailedAttempt{Attempt: 1, Random: almost}, 99 * ms, 100 * ms, ""},
		{"it doubles", retry.Policy{}, retry.FailedAttempt{Attempt: 3, Random: almost}, 399 * ms, 400 * ms, ""},
		{"up to the cap", retry.Policy{Attempts: 99}, retry.FailedAttempt{Attempt: 98, Random: almost}, 1999 * ms, 2000 * ms, ""},
		{"a base above the cap", retry.Policy{Base: time.Minute, Cap: ms}, retry.FailedAttempt{Attempt: 1, Random: almost}, 0, ms, ""},
		{"the longest base does not overflow", retry.Policy{Base: math.MaxInt64, Cap: math.MaxInt64, Total: -1}, retry.FailedAttempt{Attempt: 4, Random: 0.5}, math.MaxInt64 / 4, math.MaxInt64, ""},
		{"no pauses", retry.Policy{Base: -1}, retry.FailedAttempt{Attempt: 4, Random: almost}, 0, 0, ""},
		{"five attempts", retry.Policy{}, retry.FailedAttempt{Attempt: 5}, 0, 0, retry.ReasonExhausted},
		{"one attempt", retry.Policy{Attempts: 1}, retry.FailedAttempt{Attempt: 1}, 0, 0, retry.ReasonExhausted},
		{"a negative number of attempts", retry.Policy{Attempts: -1}, retry.FailedAttempt{Attempt: 1}, 0, 0, retry.ReasonExhausted},
		{"what was asked for is kept to", retry.Policy{}, retry.FailedAttempt{Attempt: 1, After: time.Second}, time.Second, time.Second, ""},
		{"jitter goes upwards only", retry.Policy{}, retry.FailedAttempt{Attempt: 1, After: time.Second, Random: almost}, 1099 * ms, 1100 * ms, ""},
		{"a tenth of a long wait", retry.Policy{Total: time.Hour}, retry.FailedAttempt{Attempt: 1, After: time.Minute, Random: almost}, 65999 * ms, 66 * time.Second, ""},
		{"a negative wish is none", retry.Policy{}, retry.FailedAttempt{Attempt: 1, After: -time.Second}, 0, 0, ""},
		{"an absurd wish", retry.Policy{}, retry.FailedAttempt{Attempt: 1, After: math.MaxInt64, Random: almost}, 0, 0, retry.ReasonTooLate},
		{"an absurd wish and all the time of the world", retry.Policy{Total: -1}, retry.FailedAttempt{Attempt: 1, After: math.MaxInt64, Random: almost}, math.MaxInt64, math.MaxInt64, ""},
		{"later than Total", retry.Policy{}, retry.FailedAttempt{Attempt: 1, After: 10 * time.Second}, 0, 0, retry.ReasonTooLate},
		{"later than what is left of it", retry.Policy{}, retry.FailedAttempt{Attempt: 1, After: time.Second, Elapsed: 9 * time.Second}, 0, 0, retry.ReasonTooLate},
		{"just in time", retry.Policy{}, retry.FailedAttempt{Attempt: 1, After: time.Second, Elapsed: 9*time.Second - 1}, time.Second, time.Second, ""},
		{"later than the caller's deadline", retry.Policy{Total: -1}, retry.FailedAttempt{Attempt: 1, After: time.Second, Deadline: time.Second}, 0, 0, retry.ReasonTooLate},
		{"the earlier of the two counts", retry.Policy{Total: time.Minute}, retry.FailedAttempt{Attempt: 1, After: 2 * time.Second, Deadline: time.Second}, 0, 0, retry.ReasonTooLate},
		{"Total is over", retry.Policy{Base: -1}, retry.FailedAttempt{Attempt: 1, Elapsed: 10 * time.Second}, 0, 0, retry.ReasonTooLate},
		{"final", retry.Policy{}, retry.FailedAttempt{Attempt: 1, Class: retry.ClassFinal}, 0, 0, retry.ReasonPointless},
		{"unsafe and unknown", retry.Policy{Unsafe: true}, retry.FailedAttempt{Attempt: 1, Class: retry.ClassUnknown}, 0, 0, retry.ReasonNotSafe},
		{"unsafe and in flight", retry.Policy{Unsafe: true}, retry.FailedAttempt{Attempt: 1, Class: retry.ClassInFlight}, 0, 0, retry.ReasonNotSafe},
		{"unsafe and nothing happened", retry.Policy{Unsafe: true}, retry.FailedAttempt{Attempt: 1, Class: retry.ClassTransient}, 0, 0, ""},
		{"unseen: at once", retry.Policy{}, retry.FailedAttempt{Attempt: 1, Class: retry.ClassUnseen, Random: almost}, 0, 0, ""},
		{"unseen again: with a pause", retry.Policy{}, retry.FailedAttempt{Attempt: 2, Class: retry.ClassUnseen, Random: almost}, 199 * ms, 200 * ms, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.policy.Budget = &retry.Budget{}
			wait, stop := c.policy.Next(c.f)
			if stop != c.stop || wait < c.least || wait > c.most {
				t.Errorf("wait %v, stop %q; want %v to %v, %q", wait, stop, c.least, c.most, c.stop)
			}
		})
	}
}

// A retry that is not made is not paid for.
func TestNextPaysLast(t *testing.T) {
	p := retry.Policy{Budget: &retry.Budget{}}
	for _, f := range []retry.FailedAttempt{{Attempt: 5}, {Attempt: 1, Class: retry.ClassFinal}, {Attempt: 1, After: time.Hour}} {
		if _, stop := p.Next(f); stop == "" {
			t.Errorf("%+v is retried", f)
		}
	}
	if s := p.Budget.State(); s.Left != 10 || s.Spent != 0 {
		t.Errorf("after no retry: %+v", s)
	}
	p.Next(retry.FailedAttempt{Attempt: 1})
	if s := p.Budget.State(); s.Left != 9 || s.Spent != 1 {
		t.Errorf("after one retry: %+v", s)
	}
}
