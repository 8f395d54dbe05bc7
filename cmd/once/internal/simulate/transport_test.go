package simulate

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// reply is what a service answers to an attempt.
type reply struct {
	delay time.Duration // a minute: longer than any client waits
	class retry.Class
	after time.Duration
}

// script answers the n-th attempt with its n-th reply, and notes when it came.
type script struct {
	mu      sync.Mutex
	replies []reply
	at      []time.Duration
	clock   *clock
	start   time.Time
}

func (s *script) next(at time.Duration) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, at)
	if n := len(s.at); n <= len(s.replies) {
		return s.replies[n-1]
	}
	return reply{class: good}
}

// ask is the service of the simulation.
func (s *script) ask(r *request, _ time.Duration) {
	reply := s.next(s.clock.now)
	s.clock.after(reply.delay, func() { r.answer(reply.class, reply.after) })
}

// RoundTrip is the same for a real client.
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	reply := s.next(time.Since(s.start))
	select {
	case <-time.After(reply.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}
	if reply.after > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(reply.after/time.Second)))
	}
	switch reply.class {
	case retry.ClassTransient:
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	case retry.ClassThrottled:
		resp.StatusCode = http.StatusServiceUnavailable
	case retry.ClassRateLimited:
		resp.StatusCode = http.StatusTooManyRequests
	case retry.ClassUnknown:
		resp.StatusCode = http.StatusInternalServerError
	case retry.ClassInFlight:
		resp.StatusCode = http.StatusConflict
		resp.Header.Set("Content-Type", "application/problem+json")
		resp.Body = io.NopCloser(strings.NewReader(`{"code":"CONFLICT.idempotency.in_flight","retryable":true}`))
	}
	return resp, nil
}

// chance is always the same.
type chance uint64

func (c chance) Uint64() uint64 { return uint64(c) }

// The simulated client does what retryhttp.Transport does: the same attempts at the same
// time, as far as chance allows, with the same end and the same budget.
func TestClientsAreLikeTheTransport(t *testing.T) {
	const never = time.Minute
	random := rand.New(rand.NewPCG(1, 2))
	ends := map[bool]int{}
	for no := range 300 {
		var replies []reply
		for range random.IntN(6) {
			r := reply{delay: time.Duration(random.IntN(400)) * ms}
			switch random.IntN(7) {
			case 6:
				r.class, r.after = retry.ClassRateLimited, time.Duration(1+random.IntN(3))*sec
			case 0:
				r.delay = never
			case 1:
				r.class = retry.ClassTransient
			case 2:
				r.class, r.after = retry.ClassThrottled, time.Duration(1+random.IntN(3))*sec
			case 3:
				r.class, r.after = retry.ClassInFlight, sec
			default:
				r.class = retry.ClassUnknown
			}
			replies = append(replies, r)
		}
		p := Policy{retry: retry.Policy{Base: time.Duration(random.IntN(2)) * -1}, burst: 1 + random.IntN(4)}
		simulated := func(c chance) (s *script, ok bool, left float64) {
			var clock clock
			s = &script{replies: replies, clock: &clock}
			cl := client{clock: &clock, policy: &p, random: rand.New(c), service: s, sent: func() {}}
			of := p.process(&clock, sec/2)
			cl.begin(&intent{of: of, done: func(done bool) { ok = done }})
			clock.run(time.Hour)
			return s, ok, of.policy.Budget.State().Left
		}
		low, lowOK, lowLeft := simulated(0)
		high, highOK, highLeft := simulated(^chance(0))
		if len(low.at) != len(high.at) {
			continue // chance decides whether another attempt is in time
		}
		synctest.Test(t, func(t *testing.T) {
			s := script{replies: replies, start: time.Now()}
			policy := p.retry
			policy.Timeout, policy.Budget = sec/2, &retry.Budget{Burst: p.burst}
			client := &http.Client{Transport: &retryhttp.Transport{Base: &s, Policy: policy}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://service/", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "k")
			resp, err := client.Do(r)
			ok := err == nil && resp.StatusCode == http.StatusOK
			if err == nil {
				resp.Body.Close()
			}
			left := policy.Budget.State().Left
			name := fmt.Sprintf("script %d, %+v", no, replies)
			if ok != lowOK || ok != highOK || left != lowLeft || left != highLeft || len(s.at) != len(low.at) {
				t.Errorf("%s: success %v, %v of the budget left, attempts at %v; simulated: %v, %v, at %v", name, ok, left, s.at, lowOK, lowLeft, low.at)
				return
			}
			for i, at := range s.at {
				if at < low.at[i] || at > high.at[i]+ms {
					t.Errorf("%s: attempt %d at %v; simulated: %v to %v", name, i+1, at, low.at[i], high.at[i])
				}
			}
			ends[ok]++
		})
	}
	if ends[true] < 50 || ends[false] < 50 {
		t.Errorf("vacuous: %v", ends)
	}
}

// Several intents at once share a budget as they do in production: it sees the same
// failures, silence and successes in the same order.
func TestCrowdsAreLikeTheTransport(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var silenced, retried uint64
	for no := range 200 {
		var replies []reply
		for range 4 + random.IntN(12) {
			r := reply{delay: time.Duration(random.IntN(int(300 * ms)))}
			switch random.IntN(4) {
			case 0, 1:
				r.delay = time.Minute
			case 2:
				r.class = retry.ClassUnknown
			default:
				r.class = good
			}
			replies = append(replies, r)
		}
		var starts []time.Duration
		for range 8 {
			starts = append(starts, time.Duration(random.IntN(int(sec))))
		}
		p := Policy{retry: retry.Policy{Base: -1}}

		var clock clock
		model := &script{replies: replies, clock: &clock}
		cl := client{clock: &clock, policy: &p, random: random, service: model, sent: func() {}}
		of := p.process(&clock, sec/2)
		won := 0
		for _, at := range starts {
			clock.after(at, func() {
				cl.begin(&intent{of: of, done: func(ok bool) {
					if ok {
						won++
					}
				}})
			})
		}
		clock.run(time.Hour)

		synctest.Test(t, func(t *testing.T) {
			s := &script{replies: replies, start: time.Now()}
			budget := &retry.Budget{}
			tr := &retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Timeout: sec / 2, Budget: budget}}
			var all sync.WaitGroup
			var succeeded atomic.Int64
			for _, at := range starts {
				all.Go(func() {
					<-time.After(at)
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service/", nil)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := tr.RoundTrip(r)
					if err != nil {
						return
					}
					resp.Body.Close()
					if resp.StatusCode == http.StatusOK {
						succeeded.Add(1)
					}
				})
			}
			all.Wait()
			if have, want := budget.State(), of.policy.Budget.State(); have != want || int(succeeded.Load()) != won || !slices.Equal(s.at, model.at) {
				t.Errorf("script %d: %d succeed, %+v, attempts at %v; simulated: %d, %+v, at %v", no, succeeded.Load(), have, s.at, won, want, model.at)
			}
			silenced += budget.State().Refused
			retried += budget.State().Spent
		})
	}
	if silenced < 100 || retried < 100 {
		t.Errorf("vacuous: %d retries refused, %d made", silenced, retried)
	}
}
