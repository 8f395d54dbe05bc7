package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// hangs waits until the attempt is cancelled.
func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

const inFlight = `{"code":"CONFLICT.idempotency.in_flight","retryable":true}`

func problem(status int, body string) *http.Response {
	resp := answer(status, "Content-Type", "application/problem+json; charset=utf-8")
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return resp
}

func TestHedgeTakesTheFirstAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		first func(r *http.Request) (*http.Response, error)
		hedge func(r *http.Request) (*http.Response, error)
		after time.Duration
		third bool // there is a third attempt, which is answered
	}{
		{"the second one wins", hangs, ok(0), time.Second, false},
		{"the first one wins after all", ok(3 * time.Second), hangs, 3 * time.Second, false},
		{"in flight is no answer", ok(3 * time.Second), conflict, 3 * time.Second, false},
		{"a failure is none either", ok(3 * time.Second), unwell, 3 * time.Second, false},
		{"both fail", failsLate, unwell, 2 * time.Second, true},
		{"the first fails before", unwell, ok(0), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
					switch n {
					case 1:
						return c.first(r)
					case 2:
						return c.hedge(r)
					}
					return ok(0)(r)
				}}
				start := time.Now()
				resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Hedge: time.Second, Policy: retry.Policy{Base: -1}}, "Idempotency-Key", "k")
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("%v, %v", resp, err)
				}
				if took := time.Since(start); took != c.after {
					t.Errorf("took %v, want %v", took, c.after)
				}
				want := []string{"1", "2"}
				if c.third {
					want = append(want, "3")
				}
				if got := s.header("Once-Attempt"); !slices.Equal(got, want) {
					t.Errorf("attempts %v, want %v", got, want)
				}
				synctest.Wait() // everybody has gone home
				for i, r := range s.requests() {
					if r.Context().Err() == nil {
						t.Errorf("attempt %d is not over", i+1)
					}
				}
			})
		})
	}
}

func ok(after time.Duration) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(after):
			return answer(200), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func conflict(*http.Request) (*http.Response, error) { return problem(409, inFlight), nil }

func unwell(*http.Request) (*http.Response, error) { return answer(503), nil }

func failsLate(*http.Request) (*http.Response, error) {
	<-time.After(2 * time.Second)
	return nil, errors.New("reset")
}

// What must not be repeated is not hedged, and neither is what cannot be paid for.
func TestNoHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: func(_ int, r *http.Request) (*http.Response, error) { return ok(3 * time.Second)(r) }}
		if _, err := post(t.Context(), &retryhttp.Transport{Base: s, Hedge: time.Second}); err != nil || len(s.requests()) != 1 {
			t.Errorf("without a key: %v, sent %d", err, len(s.requests()))
		}
		empty := &retry.Budget{Burst: 1}
		empty.Spend(retry.ClassUnknown)
		s = &served{base: s.base}
		if _, err := post(t.Context(), &retryhttp.Transport{Base: s, Hedge: time.Second, Policy: retry.Policy{Budget: empty}}, "Idempotency-Key", "k"); err != nil || len(s.requests()) != 1 {
			t.Errorf("without a budget: %v, sent %d", err, len(s.requests()))
		}
		if state := empty.State(); state.Refused != 1 {
			t.Errorf("the budget was not asked: %+v", state)
		}
	})
}

// A hedge tells the breaker only what it has learnt.
func TestHedgeAndBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan retry.Health, 2)
		s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return hangs(r)
			}
			return answer(200), nil
		}}
		b := breakerFunc(func() (func(retry.Health), error) { return func(o retry.Health) { said <- o }, nil })
		if _, err := post(t.Context(), &retryhttp.Transport{Base: s, Hedge: time.Second, Policy: retry.Policy{Breaker: b}}, "Idempotency-Key", "k"); err != nil {
			t.Fatal(err)
		}
		if a, b := <-said, <-said; a != retry.HealthGood || b != retry.HealthUnknown {
			t.Errorf("told %v, %v", a, b)
		}
	})
}

// Of two failures the one that says more is kept.
func TestHedgeBothFail(t *testing.T) {
	shut := errors.New("shut")
	for name, second := range map[string]func(*http.Request) (*http.Response, error){"in flight": conflict, "shut": nil} {
		synctest.Test(t, func(t *testing.T) {
			allowed := 0
			b := breakerFunc(func() (func(retry.Health), error) {
				if allowed++; allowed > 1 && second == nil {
					return nil, shut
				}
				return func(retry.Health) {}, nil
			})
			s := &served{base: func(n int, r *http.Request) (*http.Response, error) {
				if n == 1 {
					return failsLate(r)
				}
				return second(r)
			}}
			_, err := post(t.Context(), &retryhttp.Transport{Base: s, Hedge: time.Second, Policy: retry.Policy{Attempts: 2, Breaker: b, Budget: &retry.Budget{Burst: 1}}}, "Idempotency-Key", "k")
			var e *retry.Error
			if !errors.As(err, &e) || e.Last == nil || e.Last.Error() != "reset" {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestHedgeThatIsRefusedLeavesItsIntentOpen: the server executes the first copy of a request. The hedge meets a refusal that does not settle the
// operation and ends the race. The intent stays open, and is closed by the answer of the operation.
func TestHedgeThatIsRefusedLeavesItsIntentOpen(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		f, path := newJournal(t)
		answered, dropped := make(chan struct{}), make(chan struct{})
		s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
			switch n {
			case 1: // the server works on it until the caller has the answer of the hedge
				<-answered
				close(dropped)
				return answer(http.StatusCreated), nil
			case 2:
				return answer(status), nil
			}
			return answer(http.StatusCreated, "Idempotency-Status", "replayed"), nil
		}}
		client := journaled(f, s)
		client.Transport.(*retryhttp.Transport).Hedge = ms
		resp, err := ask(t, client, "k", "http://service.example/refunds")
		if err != nil || resp.StatusCode != status {
			t.Fatalf("%d: %v, %v", status, resp, err)
		}
		resp.Body.Close()
		if open := openIn(t, path); !slices.Equal(open, []string{"k"}) {
			t.Errorf("%d: open: %v", status, open)
		}
		close(answered)
		<-dropped
		if r, err := journal.Resume(t.Context(), f, client, journal.Options{}); err != nil || r != (journal.Resumed{Closed: 1}) {
			t.Errorf("%d: %+v, %v", status, r, err)
		}
	}
}
