package retryhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

func TestKeysOfARequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		ctx    string
		header string
		keys   bool
		want   string // "*" for a new one
	}{
		{"none", "POST", "", "", false, ""},
		{"its own", "POST", "", "mine", true, "mine"},
		{"of the context", "POST", "ctx", "", false, "ctx"},
		{"the same in both", "POST", "mine", "mine", false, "mine"},
		{"of the context, for PUT", "PUT", "ctx", "", false, "ctx"},
		{"not for GET", "GET", "ctx", "", true, ""},
		{"a new one", "PATCH", "", "", true, "*"},
		{"not for PUT", "PUT", "", "", true, ""},
		{"quoted if it must be", "POST", `a "b", c`, "", false, `"a \"b\", c"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &served{base: always(200)}
			ctx := t.Context()
			if c.ctx != "" {
				ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: c.ctx})
			}
			r, _ := http.NewRequestWithContext(ctx, c.method, "http://service.example", strings.NewReader("x"))
			if c.header != "" {
				r.Header.Set("Idempotency-Key", c.header)
			}
			resp, err := (&retryhttp.Transport{Base: s, Keys: c.keys}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := s.header("Idempotency-Key")[0]; got != c.want && (c.want != "*" || len(got) != 36) {
				t.Errorf("sent with the key %q, want %q", got, c.want)
			}
		})
	}
}

func TestKeysThatCannotBe(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"two":     retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "other"}),
		"empty":   retryhttp.WithKey(t.Context(), retryhttp.Key{}),
		"control": retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "a\nb"}),
		"unicode": retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "schlüssel"}),
	} {
		s := &served{base: always(200)}
		var header []string
		if name == "two" {
			header = []string{"Idempotency-Key", "mine"}
		}
		if _, err := post(ctx, &retryhttp.Transport{Base: s}, header...); err == nil || len(s.requests()) != 0 {
			t.Errorf("%s: %v, sent %d", name, err, len(s.requests()))
		}
	}
}

func TestExpiredKeyIsNotSent(t *testing.T) {
	s := &served{base: always(200)}
	ctx := retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k", Since: time.Now().Add(-25 * time.Hour)})
	_, err := post(ctx, &retryhttp.Transport{Base: s})
	var e *retry.Error
	if !errors.As(err, &e) || e.Reason != retry.ReasonExpired || len(s.requests()) != 0 {
		t.Errorf("%v, sent %d", err, len(s.requests()))
	}
}

// A process that was stopped in a pause, or whose machine was, does not send a key that has
// expired meanwhile.
func TestKeyExpiresInThePause(t *testing.T) {
	for _, stopped := range []time.Duration{48 * time.Hour, 0} {
		synctest.Test(t, func(t *testing.T) {
			s := &served{base: always(503)}
			policy := retry.Policy{Attempts: 2, Total: -1, Observe: func(_ context.Context, e retry.Event) {
				if e.Stop == "" && e.Wait > 0 {
					<-time.After(stopped)
				}
			}}
			resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Policy: policy}, "Idempotency-Key", "k")
			if stopped == 0 {
				wantGivenUp(t, resp, err, retry.ReasonExhausted, 2)
				return
			}
			var e *retry.Error
			var status *retryhttp.StatusError
			if !errors.As(err, &e) || e.Reason != retry.ReasonExpired || !errors.As(err, &status) || status.Status != http.StatusServiceUnavailable || len(s.requests()) != 1 {
				t.Errorf("%v, sent %d", err, len(s.requests()))
			}
		})
	}
}

// The retention is what is configured, or less if the server says so.
func TestKeyExpiresWhileRetrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name     string
			retain   time.Duration
			header   []string
			attempts int
		}{
			{"configured", 30 * time.Second, []string{"Retry-After", "20"}, 2},
			{"advertised", 0, []string{"Retry-After", "20", "Idempotency-Retention", "30"}, 2},
			{"advertised as longer", 30 * time.Second, []string{"Retry-After", "20", "Idempotency-Retention", "86400"}, 2},
			{"long", 0, []string{"Retry-After", "20"}, 5},
		} {
			s := &served{base: always(503, c.header...)}
			resp, err := post(t.Context(), &retryhttp.Transport{Base: s, Dialect: retryhttp.Dialect{Retain: c.retain}, Policy: retry.Policy{Total: time.Hour}}, "Idempotency-Key", "k")
			reason := retry.ReasonExpired
			if c.attempts == 5 {
				reason = retry.ReasonExhausted
			}
			t.Log(c.name)
			wantGivenUp(t, resp, err, reason, c.attempts)
		}
	})
}
