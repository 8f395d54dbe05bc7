package roundtrippertest

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// headerRetention says for how many seconds a server remembers a key.
const headerRetention = "Idempotency-Retention"

// answerChecks are about failures that say whether a retry makes sense.
var answerChecks = []Check{
	{"ReplayedErrorStops", "an error that the server has replayed for the key is final", func(l *lab) error {
		s := l.serve(failThen(500, always, "Idempotent-Replayed", "true"))
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 500), s.wantSends(1))
	}},
	{"NotRetryableStops", `"retryable": false in a problem document is final`, func(l *lab) error {
		const body = `{"status":500,"code":"INTERNAL.transaction_misused","retryable":false,"safe_new_key":false}`
		s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) { problem(w, 500, body) })
		a, err := l.post(l.client(), s.URL)
		if err := errors.Join(wantStatus(a, err, 500), s.wantSends(1)); err != nil {
			return err
		}
		if a.body != body {
			return fmt.Errorf("the caller reads %q", a.body)
		}
		return nil
	}},
	{"Bare409", "409 alone is final", func(l *lab) error {
		s := l.serve(failThen(409, always))
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 409), s.wantSends(1))
	}},
	{"RetryAfter409", "after 409 with Retry-After, a request with a key is sent again with the same key", func(l *lab) error {
		s := l.serve(failThen(409, 2, "Retry-After", "1"))
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(2), s.same(testKey, testBody))
	}},
	{"Retryable409", "after 409 with \"retryable\": true in a problem document, a request is sent again with the same key", func(l *lab) error {
		s := l.serve(func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				problem(w, 409, `{"status":409,"code":"LOCKED","retryable":true}`)
			}
		})
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(2), s.same(testKey, testBody))
	}},
	{"Mismatch422", "a key that was used for another request is not tried again", func(l *lab) error {
		s := l.serve(failThen(422, always))
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 422), s.wantSends(1))
	}},
	{"StaleKey412", "a key that is too old is not tried again", func(l *lab) error {
		s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) {
			problem(w, 412, `{"status":412,"code":"CONFLICT.idempotency.stale","retryable":false,"safe_new_key":false}`)
		})
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 412), s.wantSends(1))
	}},
	{"KeyExpiryStops", "a key is not sent again after its Idempotency-Retention has passed, because the server has forgotten the key", func(l *lab) error {
		s := l.serve(failThen(503, always, headerRetention, "1", "Retry-After", "2"))
		_, _ = l.post(l.client(), s.URL) // 503 or an error
		all := s.arrivals()
		if len(all) == 0 {
			return s.wantSends(1)
		}
		if after := all[len(all)-1].at.Sub(all[0].at); after >= time.Second {
			return fmt.Errorf("the key was sent again %v after its first use, but the server keeps keys for 1 s only", after.Round(time.Millisecond))
		}
		return nil
	}},
	{"ShouldRetryNo", "Stripe-Should-Retry: false is final", func(l *lab) error {
		s := l.serve(failThen(503, always, "Stripe-Should-Retry", "false"))
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 503), s.wantSends(1))
	}},
	{"ShouldRetryYes", "after 409 with Stripe-Should-Retry: true, the request is sent again with the same key", func(l *lab) error {
		s := l.serve(failThen(409, 2, "Stripe-Should-Retry", "true"))
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(2), s.same(testKey, testBody))
	}},
}
