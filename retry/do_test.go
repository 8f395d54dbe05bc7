package retry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
)

var errDown = errors.New("down")

// policy has a budget of its own, so that tests do not take from each other.
func policy(p retry.Policy) *retry.Policy {
	if p.Budget == nil {
		p.Budget = &retry.Budget{}
	}
	return &p
}

// gaveUp fails the test if err is not the end of retrying for this reason, with errDown
// as the last failure.
func gaveUp(t *testing.T, err error, reason retry.Reason, attempts int) {
	t.Helper()
	var e *retry.Error
	if !errors.As(err, &e) || e.Reason != reason || e.Attempts != attempts || !errors.Is(err, errDown) {
		t.Errorf("%v; want %s after %d, with the last failure", err, reason, attempts)
	}
}

func TestDoSucceedsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		var events []retry.Event
		p := policy(retry.Policy{Observe: func(_ context.Context, e retry.Event) { events = append(events, e) }})
		err := retry.Do(t.Context(), p, func(_ context.Context, attempt int) error {
			if seen = append(seen, attempt); attempt < 3 {
				return errDown
			}
			return nil
		})
		if err != nil || !slices.Equal(seen, []int{1, 2, 3}) {
			t.Errorf("%v after attempts %v", err, seen)
		}
		if len(events) != 3 || events[0].Final() || !events[2].Final() || events[2].Type != retry.EventDone || events[2].Attempt != 3 || events[0].Attempt != 1 || events[1].Attempt != 2 || !errors.Is(events[1].Err, errDown) || events[1].Stop != "" {
			t.Errorf("observed %+v", events)
		}
		if s := p.Budget.State(); s.Left != 8.1 {
			t.Errorf("two retries and a success: %+v", s)
		}
	})
}

func TestDoPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 {
			var at []time.Time
			err := retry.Do(t.Context(), policy(retry.Policy{}), func(context.Context, int) error {
				at = append(at, time.Now())
				return errDown
			})
			gaveUp(t, err, retry.ReasonExhausted, 5)
			for i, most := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms} {
				if pause := at[i+1].Sub(at[i]); pause >= most {
					t.Errorf("pause %d is %v", i+1, pause)
				}
			}
		}
	})
}

// Total ends the waiting and the attempts after the first.
func TestDoTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := retry.Do(t.Context(), policy(retry.Policy{Total: 3 * time.Second}), func(ctx context.Context, attempt int) error {
			if attempt == 1 {
				return errDown
			}
			<-ctx.Done()
			return fmt.Errorf("%w: %w", errDown, ctx.Err())
		})
		gaveUp(t, err, retry.ReasonTooLate, 2)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestDoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		err := retry.Do(t.Context(), policy(retry.Policy{Timeout: time.Second}), func(ctx context.Context, attempt int) error {
			attempts = attempt
			start := time.Now()
			<-ctx.Done()
			if took := time.Since(start); took != time.Second {
				t.Errorf("attempt %d was given %v", attempt, took)
			}
			return errors.Join(errDown, ctx.Err())
		})
		gaveUp(t, err, retry.ReasonExhausted, attempts)
		if attempts != 5 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

// The deadline of an attempt is what comes first: the end of Total, which begins with the
// first failure, of Timeout, or of the caller's time.
func TestDoDeadline(t *testing.T) {
	for _, c := range []struct {
		name                   string
		total, timeout, caller time.Duration // 0: none
		want                   time.Duration // of the second attempt, since the first failure
	}{
		{"total", 3 * time.Second, 0, 0, 3 * time.Second},
		{"timeout", 3 * time.Second, time.Second, 0, time.Second},
		{"total before timeout", 3 * time.Second, 5 * time.Second, 0, 3 * time.Second},
		{"caller", 3 * time.Second, 5 * time.Second, 4 * time.Second, 2 * time.Second},
		{"total before caller", 3 * time.Second, 0, 9 * time.Second, 3 * time.Second},
		{"none but timeout", -1, time.Second, 0, time.Second},
		{"none but caller", -1, 0, 9 * time.Second, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.caller > 0 {
					limited, cancel := context.WithTimeout(ctx, c.caller)
					defer cancel()
					ctx = limited
				}
				var second context.Context
				p := policy(retry.Policy{Base: -1, Total: c.total, Timeout: c.timeout, Attempts: 2})
				_ = retry.Do(ctx, p, func(ctx context.Context, attempt int) error {
					if attempt == 1 {
						<-time.After(2 * time.Second) // it does not look at its own time
						return errDown
					}
					second = ctx //nolint:fatcontext // to see how it ends
					began := time.Now()
					if due, ok := ctx.Deadline(); !ok || due.Sub(began) != c.want {
						t.Errorf("its deadline is %v, %v after the failure", ok, due.Sub(began))
					}
					<-ctx.Done()
					if took := time.Since(began); took != c.want || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
						t.Errorf("%v after %v", ctx.Err(), took)
					}
					return errDown
				})
				if second == nil || second.Err() == nil {
					t.Error("the second attempt has not ended")
				}
			})
		})
	}
}

// A pause that would end after the deadline is not begun.
func TestDoFailsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := retry.Do(ctx, policy(retry.Policy{}), func(context.Context, int) error {
			return retry.After(errDown, 2*time.Second)
		})
		gaveUp(t, err, retry.ReasonTooLate, 1)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestDoContextEndsInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		start := time.Now()
		err := retry.Do(ctx, policy(retry.Policy{}), func(context.Context, int) error {
			return retry.After(errDown, 2*time.Second)
		})
		gaveUp(t, err, retry.ReasonCancelled, 1)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("%v does not say why the context has ended", err)
		}
	})
}

// An attempt that was only cut off says less than the one before it.
func TestDoContextEndsInAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := retry.Do(ctx, policy(retry.Policy{}), func(ctx context.Context, attempt int) error {
			if attempt == 1 {
				return errDown
			}
			<-ctx.Done()
			return ctx.Err()
		})
		gaveUp(t, err, retry.ReasonCancelled, 2)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not say that the time was over", err)
		}
	})
}

func TestDoContextIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := retry.Do(ctx, nil, func(context.Context, int) error {
		t.Error("called")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestDoStops(t *testing.T) {
	err := retry.Do(t.Context(), policy(retry.Policy{}), func(_ context.Context, attempt int) error {
		if attempt > 1 {
			t.Error("retried")
		}
		return retry.Permanent(errDown)
	})
	if err != errDown { //nolint:errorlint // it comes back as it was
		t.Errorf("%v", err)
	}
}

func TestDoOverBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy(retry.Policy{Budget: &retry.Budget{Burst: 1}})
		err := retry.Do(t.Context(), p, func(context.Context, int) error { return errDown })
		gaveUp(t, err, retry.ReasonOverBudget, 2)
		if s := p.Budget.State(); s.Refused != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDoUnsafe(t *testing.T) {
	err := retry.Do(t.Context(), policy(retry.Policy{Unsafe: true}), func(context.Context, int) error { return errDown })
	gaveUp(t, err, retry.ReasonNotSafe, 1)
}

// breaker opens after so many failures.
type breaker struct {
	left int
	said []retry.Health
}

var errOpen = errors.New("open")

func (b *breaker) Allow() (func(retry.Health), error) {
	if b.left == 0 {
		return nil, errOpen
	}
	return func(o retry.Health) {
		if b.said = append(b.said, o); o == retry.HealthBad {
			b.left--
		}
	}, nil
}

func TestDoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &breaker{left: 2}
		p := policy(retry.Policy{Breaker: b})
		err := retry.Do(t.Context(), p, func(context.Context, int) error { return errDown })
		gaveUp(t, err, retry.ReasonOpen, 2)
		if !errors.Is(err, errOpen) {
			t.Errorf("%v", err)
		}
		err = retry.Do(t.Context(), p, func(context.Context, int) error {
			t.Error("called")
			return nil
		})
		if !errors.Is(err, errOpen) {
			t.Errorf("%v", err)
		}
	})
}

func TestDoTellsTheBreaker(t *testing.T) {
	b := &breaker{left: 9}
	p := policy(retry.Policy{Breaker: b, Attempts: 1})
	ctx, cancel := context.WithCancel(t.Context())
	do := func(fn func() error) {
		defer func() { _ = recover() }()
		_ = retry.Do(ctx, p, func(context.Context, int) error { return fn() })
	}
	do(func() error { return nil })
	do(func() error { return errDown })
	do(func() error { return retry.Permanent(errDown) })
	do(func() error { panic("a bug") })
	do(func() error { cancel(); return ctx.Err() })
	want := []retry.Health{retry.HealthGood, retry.HealthBad, retry.HealthGood, retry.HealthBad, retry.HealthUnknown}
	if !slices.Equal(b.said, want) {
		t.Errorf("told %v, want %v", b.said, want)
	}
}

func TestDoAllocatesNothing(t *testing.T) {
	p := policy(retry.Policy{Base: -1, Total: -1, Budget: &retry.Budget{Burst: -1}})
	if n := testing.AllocsPerRun(100, func() { _ = retry.Do(t.Context(), nil, succeed) }); n != 0 {
		t.Errorf("a success allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = retry.Do(t.Context(), p, failOnce) }); n != 0 {
		t.Errorf("a retry allocates %v times", n)
	}
	p.Total = 0
	if n := testing.AllocsPerRun(100, func() { _ = retry.Do(t.Context(), p, failOnce) }); n > 1 {
		t.Errorf("a retry that has a deadline allocates %v times", n)
	}
}

// What the package and the field say of Total is one thing, and what TestDoDeadline sees.
func TestTotalIsSaidOnce(t *testing.T) {
	for _, file := range []string{"doc.go", "policy.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(source), "//", "")), " ")
		for _, want := range []string{" the first failure", "n package retryhttp the", " with the call."} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", file, want)
			}
		}
	}
}
