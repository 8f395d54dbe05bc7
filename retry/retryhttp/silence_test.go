package retryhttp_test

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// baseTimeoutError is what net/http returns when Base has a timeout of its own.
type baseTimeoutError struct{ error }

func (baseTimeoutError) Timeout() bool { return true }

// late answers all after 800 ms, the first two with a failure.
func late(failure func() (*http.Response, error)) base {
	return func(n int, _ *http.Request) (*http.Response, error) {
		<-time.After(800 * time.Millisecond)
		if n < 3 {
			return failure()
		}
		return answer(200), nil
	}
}

// A request without an answer is not sent again if the later ones are not answered either: not by
// who has many requests under way. Who has only one has all its attempts.
func TestNobodyIsAnswered(t *testing.T) {
	for _, c := range []struct {
		name    string
		callers int // one every 100 ms; they wait for a second
		base    base
		sent    int
	}{
		{"one caller", 1, func(_ int, r *http.Request) (*http.Response, error) { return hangs(r) }, 3},
		{"twelve callers", 12, func(_ int, r *http.Request) (*http.Response, error) { return hangs(r) }, 12},
		{"twelve callers, and a timeout of Base", 12, func(_ int, r *http.Request) (*http.Response, error) {
			<-time.After(800 * time.Millisecond)
			return nil, baseTimeoutError{errors.New("no headers")}
		}, 12},
		{"the fourth is answered", 12, func(n int, r *http.Request) (*http.Response, error) {
			if n < 4 {
				return hangs(r)
			}
			return answer(200), nil
		}, 15},
		{"two are refused, late", 12, late(func() (*http.Response, error) { return answer(503), nil }), 14},
		{"two are cut off, late", 12, late(func() (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Err: errors.New("reset")}
		}), 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &served{base: c.base}
				b := &retry.Budget{}
				var all sync.WaitGroup
				for i := range c.callers {
					all.Go(func() {
						<-time.After(time.Duration(i) * 100 * time.Millisecond)
						_, _ = post(t.Context(), &retryhttp.Transport{Base: s, Policy: retry.Policy{Attempts: 3, Base: -1, Timeout: time.Second, Budget: b}}, "Idempotency-Key", strconv.Itoa(i))
					})
				}
				all.Wait()
				if n := len(s.requests()); n != c.sent {
					t.Errorf("sent %d, want %d; %+v", n, c.sent, b.State())
				}
			})
		})
	}
}
