package retryhttp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// leave makes intents that a dead client has left open.
func leave(t *testing.T, f *journal.File, n int, url string) {
	t.Helper()
	for i := range n {
		in, err := f.Begin(t.Context(), journal.Intent{Key: fmt.Sprintf("k%d", i), Method: http.MethodPost, URL: url, Body: []byte("body")})
		if err == nil {
			err = f.End(t.Context(), in, journal.ProofNone)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// thrifty is a client with an ordinary budget, which does not pause.
func thrifty(j journal.Journal, base http.RoundTripper) (*http.Client, *retry.Budget) {
	b := new(retry.Budget)
	return &http.Client{Transport: &retryhttp.Transport{Base: base, Journal: j, Policy: retry.Policy{Base: -1, Budget: b}}}, b
}

func mustResume(t *testing.T, j journal.Journal, client *http.Client, o journal.Options) journal.Resumed {
	t.Helper()
	r, err := journal.Resume(t.Context(), j, client, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestResumeIsNoStorm: a server that is down gets what the budget pays for and one request
// more, then one with each call; when it is up again the next call catches up, although
// nothing has filled the budget.
func TestResumeIsNoStorm(t *testing.T) {
	const n = 300
	f, path := newJournal(t)
	var seen atomic.Int32
	var well atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer service.Close()
	leave(t, f, n, service.URL)
	client, budget := thrifty(f, nil)
	if r := mustResume(t, f, client, journal.Options{}); r.Open != n || r.Left < n-11 || r.Left == n || r.Closed != 0 {
		t.Errorf("%+v", r)
	}
	if got := seen.Swap(0); got != 11 {
		t.Errorf("%d requests to a server that is down, want 10 paid for and one on trust", got)
	}
	for range 3 {
		if r := mustResume(t, f, client, journal.Options{}); r != (journal.Resumed{Open: n, Left: n - 1}) || seen.Swap(0) != 1 {
			t.Errorf("once more: %+v", r)
		}
	}
	well.Store(true)
	if left := budget.State().Left; left != 0 {
		t.Fatalf("vacuous: %v are left of the budget", left)
	}
	if r := mustResume(t, f, client, journal.Options{}); r != (journal.Resumed{Closed: n}) || seen.Load() != n || len(openIn(t, path)) != 0 {
		t.Errorf("%+v after %d requests", r, seen.Load())
	}
	if left := budget.State().Left; left != 10 {
		t.Errorf("%v are left of the budget", left)
	}
}

// TestResumeOfUnreachable: the same where no server answers.
func TestResumeOfUnreachable(t *testing.T) {
	for name, use := range map[string]bool{"with the journal": true, "without": false} {
		f, _ := newJournal(t)
		leave(t, f, 100, "http://service.example/")
		s := &served{base: func(int, *http.Request) (*http.Response, error) { return nil, errors.New("no route to host") }}
		client, _ := thrifty(f, s)
		if !use {
			client.Transport = s
		}
		r, err := journal.Resume(t.Context(), f, client, journal.Options{})
		if n := len(s.requests()); err == nil || r.Open != 100 || r.Left < 89 || r.Left > 98 || n > 11 || n < 10 {
			t.Errorf("%s: %+v after %d requests, %v", name, r, n, err)
		}
	}
}

// TestResumePace: one request to begin with, one more with each answer, up to Parallel or to
// what the budget pays for at once; the oldest first.
func TestResumePace(t *testing.T) {
	for name, c := range map[string]struct{ parallel, burst, percent, spent, most int }{
		"parallel": {4, 10, 0, 0, 4},
		"budget":   {6, 3, -1, 0, 3}, // that is not filled meanwhile
		"empty":    {4, 10, 0, 10, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, path := newJournal(t)
			leave(t, f, 120, "http://service.example/")
			var busy, peak, sent int
			var early []int // requests under way, with each new one
			var first []string
			s := &served{}
			s.base = func(_ int, r *http.Request) (*http.Response, error) {
				s.mu.Lock()
				busy++
				sent++
				early, first = append(early, busy), append(first, r.Header.Get("Idempotency-Key"))
				peak = max(peak, busy)
				s.mu.Unlock()
				<-time.After(ms) // in the time of the test
				s.mu.Lock()
				busy--
				s.mu.Unlock()
				return answer(201), nil
			}
			client, budget := thrifty(f, s)
			budget.Burst, budget.Percent = c.burst, c.percent
			for range c.spent {
				budget.Spend(retry.ClassUnknown)
			}
			if r := mustResume(t, f, client, journal.Options{Parallel: c.parallel}); r != (journal.Resumed{Closed: 120}) || sent != 120 || len(openIn(t, path)) != 0 {
				t.Errorf("%s: %+v, %d requests", name, r, sent)
			}
			if c.spent == 0 && (!slices.Equal(early[:3], []int{1, 1, 2}) || first[0] != "k0" || first[1] != "k1" && first[2] != "k1") ||
				c.spent > 0 && !slices.Equal(early[:10], []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}) || peak != c.most {
				t.Errorf("%s: %d at the same time, begun with %v, %v", name, peak, early[:12], first[:6])
			}
			if left := budget.State().Left; left != float64(c.burst) {
				t.Errorf("%s: %v are left of the budget", name, left)
			}
		})
	}
}

// TestResumePoison: what is always refused does not stand in the way of the rest, also where
// nothing fills the budget.
func TestResumePoison(t *testing.T) {
	f, _ := newJournal(t)
	leave(t, f, 40, "http://service.example/")
	poison := func(key string) bool { return len(key) == 2 || key < "k2" } // the oldest 20
	s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
		if poison(r.Header.Get("Idempotency-Key")) {
			return answer(500), nil
		}
		return answer(201), nil
	}}
	client, budget := thrifty(f, s)
	budget.Percent = -1
	for budget.Spend(retry.ClassUnknown) {
	}
	closed, calls := 0, 0
	for ; closed < 20 && calls < 1000; calls++ {
		sent := len(s.requests())
		r := mustResume(t, f, client, journal.Options{})
		if closed += r.Closed; r.Closed+1 != len(s.requests())-sent && closed < 20 {
			t.Errorf("%+v after %d requests", r, len(s.requests())-sent)
		}
	}
	if closed != 20 {
		t.Errorf("%d of 20 were sent in %d calls", closed, calls)
	}
	t.Logf("%d calls", calls)
}

// TestResumeOfTwoHosts: one that fails has nothing to do with the other one.
func TestResumeOfTwoHosts(t *testing.T) {
	f, _ := newJournal(t)
	down := strings.ToLower(rand.Text()) + ".example" // its budget is that of the process
	leave(t, f, 50, "http://"+down)
	leave(t, f, 50, "http://UP.example/")
	leave(t, f, 50, "http://up.example/other")
	client := &http.Client{Transport: &retryhttp.Transport{Journal: f, Policy: retry.Policy{Base: -1, Attempts: 1}, Base: base(func(_ int, r *http.Request) (*http.Response, error) {
		if r.URL.Host == down {
			return nil, io.ErrUnexpectedEOF
		}
		return answer(409), nil // is an answer
	})}}
	r, err := journal.Resume(t.Context(), f, client, journal.Options{})
	if err == nil || r != (journal.Resumed{Open: 150, Left: 39}) || strings.Count(err.Error(), "unexpected EOF") != 11 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestResumeLeavesAlone: a host that says when to come again, and one whose breaker is open,
// is left alone; what was not sent is not paid for.
func TestResumeLeavesAlone(t *testing.T) {
	f, _ := newJournal(t)
	leave(t, f, 20, "http://service.example/")
	s := &served{base: always(429, "Retry-After", "3600")}
	client, budget := thrifty(f, s)
	if r := mustResume(t, f, client, journal.Options{}); r != (journal.Resumed{Open: 20, Left: 19}) || len(s.requests()) != 1 {
		t.Errorf("Retry-After: %+v, %d requests", r, len(s.requests()))
	}
	before := budget.State()
	client.Transport.(*retryhttp.Transport).Policy.Breaker = breakerFunc(func() (func(retry.Health), error) { return nil, errors.New("shut") })
	if r := mustResume(t, f, client, journal.Options{}); r != (journal.Resumed{Open: 20, Left: 20}) || len(s.requests()) != 1 {
		t.Errorf("open: %+v, %d requests", r, len(s.requests()))
	}
	refuse := func(*http.Request, journal.Intent) error { return errors.New("no token") }
	if r, err := journal.Resume(t.Context(), f, client, journal.Options{Prepare: refuse}); err == nil || r != (journal.Resumed{Open: 20}) || len(s.requests()) != 1 {
		t.Errorf("not prepared: %+v, %v", r, err)
	}
	_ = f.Close()
	if after := budget.State(); after.Left != before.Left || after.Spent == before.Spent {
		t.Errorf("%+v became %+v", before, after)
	}
}

// TestResumeWithABrokenJournal: what the journal does not take is not paid for either.
func TestResumeWithABrokenJournal(t *testing.T) {
	f, _ := newJournal(t)
	leave(t, f, 30, "http://service.example/")
	j := &forgetful{File: f}
	s := &served{base: always(201)}
	client, budget := thrifty(j, s)
	if r, err := journal.Resume(t.Context(), j, client, journal.Options{}); !errors.Is(err, errForgetful) || r != (journal.Resumed{Open: 30}) || len(s.requests()) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if b := budget.State(); b.Left != 10 || b.Spent == 0 {
		t.Errorf("%+v", b)
	}
}

// forgetful is a journal that lists, and takes nothing.
type forgetful struct{ *journal.File }

var errForgetful = errors.New("not today")

func (*forgetful) Begin(context.Context, journal.Intent) (journal.Intent, error) {
	return journal.Intent{}, errForgetful
}
