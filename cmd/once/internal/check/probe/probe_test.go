package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/cmd/once/internal/request"
	"github.com/oncelib/once/internal/base/words"
)

// causes runs p, and returns what it finds, but for notes.
func causes(t *testing.T, p *Probe) (found []string, r *Report) {
	t.Helper()
	r, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Says == "" || f.Try == "" || len(f.Checks) == 0 {
			t.Errorf("%+v", f)
		}
		if f.Level != Note {
			found = append(found, f.Cause)
		}
	}
	if r.Passed() != (len(found) == 0) {
		t.Errorf("passed, %v: %q", r.Passed(), found)
	}
	return found, r
}

// TestARightServiceHasNoFinding: not even a note; and the plan says how many requests take effect.
func TestARightServiceHasNoFinding(t *testing.T) {
	t.Parallel()
	for _, isCounted := range []bool{true, false} {
		p, s := serveByHand(t, "", isCounted)
		p.After = time.Nanosecond
		_, r := causes(t, p)
		for _, f := range r.Findings {
			t.Errorf("counted, %v: %+v", isCounted, f)
		}
		steps, requests, effects := p.Plan()
		if len(steps) != len(r.Checks) || int(r.Requests) > requests || r.Requests < 50 || requests > 120 || int(s.effects) > effects || s.effects < 10 {
			t.Errorf("%d requests of at most %d, %d effects of %d", r.Requests, requests, s.effects, effects)
		}
		for _, c := range r.Checks {
			if c.Outcome != "ok" {
				t.Errorf("%+v", c)
			}
		}
		if isCounted && *r.Effects != s.effects {
			t.Errorf("%d effects, and %d in the report", s.effects, *r.Effects)
		}
	}
}

// TestEachBugIsSaidOnce: each mutant of the right service is found, with a counter of effects and without one, and by its one cause.
func TestEachBugIsSaidOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bug, counted, blind string }{
		{"no keys", "ignored", "ignored"},
		{"checks then acts", "race", "race"},
		{"compares no bodies", "mismatch", "mismatch"},
		{"executes a mismatch", "mismatch", "mismatch"},
		{"all callers", "leaked", "leaked"},
		{"truncates", "truncated", "truncated"},
		{"folds", "folded", "folded"},
		{"keeps few keys", "forgotten", "forgotten"},
		{"takes the key before the body", "half-body", "half-body"},
		{"stores failures", "corrected", "corrected"},
		{"forgets the status", "status", "status"},
		{"forgets headers", "header", "header"},
		{"makes answers anew", "body", "ignored"}, // which may be another effect
		{"refuses retries", "refused", "refused"},
		{"hashes headers", "picky", "picky"},
		{"fails in flight", "crash", "crash"},
		{"no Retry-After", "retry-after", "retry-after"},
		{"empty key", "empty", "empty"},
		{"answers ok", "", ""},
		{"answers the key", "", ""},
		{"answers the key + executes retries", "ignored", ""}, // which is no pass
		// A map in memory, and a middleware with SETNX that lets its key go by time alone.
		{"checks then acts + compares no bodies + all callers + forgets the status + empty key", "empty leaked mismatch race status", "empty leaked mismatch race status"},
		{"takes the key before the body + compares no bodies + all callers + forgets headers + no Retry-After", "half-body header leaked mismatch retry-after", "half-body header leaked mismatch retry-after"},
	} {
		for _, isCounted := range []bool{true, false} {
			p, _ := serveByHand(t, c.bug, isCounted)
			if strings.Contains(c.bug, "takes the key") {
				p.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() } // the key is never let go
			}
			found, r := causes(t, p)
			slices.Sort(found)
			if got, want := strings.Join(found, " "), words.Either(isCounted, c.counted, c.blind); got != want {
				t.Errorf("%s, counted, %v: %q, want %q", c.bug, isCounted, got, want)
				for _, f := range r.Findings {
					t.Logf("%+v", f)
				}
			}
			if isBlind := strings.HasPrefix(c.bug, "answers ") && !isCounted; r.Blind != isBlind {
				t.Errorf("%s, counted, %v: blind, %v", c.bug, isCounted, r.Blind)
			}
		}
	}
}

// TestNothingIsSentElsewhere: an address that is not this machine is refused before a packet, also where a name resolves to it.
func TestNothingIsSentElsewhere(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"http://192.0.2.1/", "https://api.example.com/charges", "http://127.0.0.1.example.com/", "http://localhost.example.com/", "http://[2001:db8::1]/", "http://0.0.0.0/"} {
		u, err := url.Parse(place)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Request: &request.Request{Method: http.MethodPost, URL: u}}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "has sent no request. Try: --i-own-this "+u.Hostname()) {
			t.Errorf("%s: %v", place, err)
		}
		cfg.Owned = []string{"other.example.com", strings.ToUpper(u.Hostname())}
		if p, err := New(cfg); err != nil || p.pace.limit != 5 {
			t.Errorf("%s, owned: %v", place, err)
		}
	}
	for address, isAllowed := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "192.0.2.1:80": false, "[2001:db8::1]:80": false} {
		if err := onlyLoopback("tcp", address, nil); (err == nil) != isAllowed {
			t.Errorf("%s: %v", address, err)
		}
	}
	p, s := serveByHand(t, "", false)
	if p.Plan(); s.effects != 0 || p.requests.Load() != 0 {
		t.Error("a plan sends something")
	}
}

// TestPaceIsFiveRequestsPerSecond: another machine gets at most five requests within any second, those at once included.
func TestPaceIsFiveRequestsPerSecond(t *testing.T) {
	t.Parallel()
	p, s := serveByHand(t, "", true)
	now := time.Now()
	var mu sync.Mutex
	var sent []time.Time
	p.pace.limit, p.pace.now = 5, func() time.Time { return now }
	p.pace.wait = func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }
	connect := p.connect
	p.connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, now)
		return connect(ctx, network, address)
	}
	if found, _ := causes(t, p); len(found) > 0 || s.effects == 0 {
		t.Errorf("%q", found)
	}
	for i := 5; i < len(sent); i++ {
		if d := sent[i].Sub(sent[i-5]); d < time.Second {
			t.Errorf("request %d comes %v after the fifth one before it", i, d)
		}
	}
}

// TestNoRedirectIsFollowed: it is an answer like any other, and the credentials stay where they are.
func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	other := 0
	elsewhere := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other++ }))
	p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.Request.URL.String(), http.StatusTemporaryRedirect)
	}))
	if _, err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "gets the answer 307") || !strings.Contains(err.Error(), "Try: ") || other != 0 {
		t.Errorf("%v, %d requests elsewhere", err, other)
	}
}

// TestNothingCanBeTold: a request that fails, a service that is not there and a counter that fails are no verdict.
func TestNothingCanBeTold(t *testing.T) {
	t.Parallel()
	p := serve(t, http.NotFoundHandler())
	if r, err := p.Run(t.Context()); err == nil || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	p.connect = func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	if _, err := p.Run(t.Context()); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("%v", err)
	}
	p.Effects = func(context.Context) (int64, error) { return 0, net.ErrClosed }
	if _, err := p.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestOtherBody: another body differs in one value, and is as well formed as the first.
func TestOtherBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"amount":5000,"to":"ada"}`: `{"amount":5001,"to":"ada"}`,
		`{"to": "ada 5"}`:            `{"to": "ada 5x"}`,
		"amount=5000&currency=eur":   "amount=5001&currency=eur",
		"to=ada":                     "to=adax",
		"":                           "",
		"<a>5</a>":                   "",
		`{"a":true}`:                 "",
	} {
		if got := string(otherBody([]byte(body))); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
