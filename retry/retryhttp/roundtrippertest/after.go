package roundtrippertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// afterChecks check when a client sends a request again.
var afterChecks = []Check{
	{"RetryAfterSeconds", "the client waits for a Retry-After in seconds", func(l *lab) error {
		return l.waits(func() string { return "1" })
	}},
	{"RetryAfterDate", "the client waits for a Retry-After as a date", func(l *lab) error {
		return l.waits(func() string { return inTwoSeconds().Format(http.TimeFormat) })
	}},
	{"RetryAfterOldDates", "the client waits for a Retry-After as a date in the two old forms", func(l *lab) error {
		for _, form := range []string{"Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
			if err := l.waits(func() string { return inTwoSeconds().Format(form) }); err != nil {
				return fmt.Errorf("%s: %w", form, err)
			}
		}
		return nil
	}},
	{"RetryAfterFraction", "the client waits for a Retry-After with a fraction", func(l *lab) error {
		return l.waits(func() string { return "1.2" })
	}},
	{"RetryAfterUTC", "the client waits for a Retry-After as a date with the zone UTC", func(l *lab) error {
		return l.waits(func() string { return inTwoSeconds().Format("Mon, 02 Jan 2006 15:04:05 UTC") })
	}},
	{"RetryAfterMs", "the client waits for a retry-after-ms", func(l *lab) error {
		s := l.serve(failThen(503, 2, "Retry-After-Ms", "1200"))
		a, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, "")
		if err := errors.Join(wantStatus(a, err, 200), s.wantSends(2)); err != nil {
			return err
		}
		if gap := s.gap(); gap < 1190*time.Millisecond {
			return fmt.Errorf("the client sent the retry after %v", gap)
		}
		return nil
	}},
	{"RetryAfterNeverEarly", "the client never retries earlier than the server has asked", func(l *lab) error {
		var all sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			all.Go(func() { errs[i] = l.waits(func() string { return "1" }) })
		}
		all.Wait()
		return errors.Join(errs...)
	}},
	{"RetryAfterBeyondDeadline", "a call fails at once if Retry-After ends later than the deadline of the call", func(l *lab) error {
		return l.givesUp("86400")
	}},
	{"RetryAfterOverflow", "a Retry-After that overflows counts as a very long time, not as no time", func(l *lab) error {
		for _, after := range []string{"9223372037", "9999999999999", "99999999999999999999999999"} {
			if err := l.givesUp(after); err != nil {
				return fmt.Errorf("%s: %w", after, err)
			}
		}
		return nil
	}},
	{"RetryAfterNonsense", "a Retry-After that is negative, past or nonsense changes nothing", func(l *lab) error {
		for _, after := range []string{"-5", "soon", "1.5e3", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)} {
			s := l.serve(failThen(503, 2, "Retry-After", after))
			start := time.Now()
			a, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, "")
			if err := errors.Join(wantStatus(a, err, 200), s.wantSends(2)); err != nil {
				return fmt.Errorf("%s: %w", after, err)
			}
			if took := time.Since(start); took > 5*time.Second {
				return fmt.Errorf("%s: the call took %v", after, took)
			}
		}
		return nil
	}},
	{"CancelledInWait", "the end of the context ends the waiting", func(l *lab) error {
		_, took, err := l.cancelInWait()
		if err == nil {
			return errors.New("it does not wait")
		}
		if took > 4500*time.Millisecond {
			return fmt.Errorf("the client returned only %v after the answer, and its context had ended long before", took)
		}
		return nil
	}},
	{"LastFailureInWait", "if the context ends while the client waits, the error also contains the last failure", func(l *lab) error {
		s, _, err := l.cancelInWait()
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the error of the client does not contain the error of the context: %w", err)
		}
		if !contains(err.Error(), "503") {
			return fmt.Errorf("the error of the client does not mention the last answer, 503: %w", err)
		}
		return s.wantSends(1)
	}},
}

// inTwoSeconds returns a time that is at least one second from now, even after its fraction of a second is cut off.
func inTwoSeconds() time.Time { return time.Now().UTC().Add(2 * time.Second) }

// waits fails unless the second request comes a second after the first one.
func (l *lab) waits(after func() string) error {
	s := l.serve(func(n int, w http.ResponseWriter, r *http.Request) {
		failThen(503, 2, "Retry-After", after())(n, w, r)
	})
	a, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, "")
	if err := errors.Join(wantStatus(a, err, 200), s.wantSends(2)); err != nil {
		return err
	}
	if gap := s.gap(); gap < 990*time.Millisecond || gap > 8*time.Second {
		return fmt.Errorf("the client sent the retry after %v", gap)
	}
	return nil
}

// givesUp fails unless a request with some seconds to live returns long before.
func (l *lab) givesUp(after string) error {
	s := l.serve(failThen(503, always, "Retry-After", after))
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	start := time.Now()
	a, err := l.do(ctx, l.client(), http.MethodGet, s.URL, "")
	if err == nil && a.status != 503 {
		return wantStatus(a, err, 503)
	}
	if took := time.Since(start); took > 4500*time.Millisecond {
		return fmt.Errorf("the call took %v", took)
	}
	return s.wantSends(1)
}

// cancelInWait cancels a request while it waits for five seconds. It returns how long after the answer the client has returned.
func (l *lab) cancelInWait() (s *site, took time.Duration, err error) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	var answered time.Time
	s = l.serve(failThen(503, always, "Retry-After", "5"))
	c := l.client()
	c.back = make(chan struct{}, 9)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-c.back
		answered = time.Now()
		timer := time.NewTimer(300 * time.Millisecond) // for the client to begin to wait
		defer timer.Stop()
		<-timer.C
		cancel()
	}()
	_, err = l.do(ctx, c, http.MethodGet, s.URL, "")
	<-done
	return s, time.Since(answered), err
}
