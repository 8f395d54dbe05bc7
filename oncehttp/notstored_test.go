package oncehttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/refundplaybook"
	"github.com/oncelib/once/store/memstore"
)

// lastEvent is an observer that keeps the last event.
type lastEvent struct{ once.Event }

func (l *lastEvent) Observe(_ context.Context, e once.Event) { l.Event = e }

// TestNotStored: a business "not now" was answered and not stored. It is neither an ignored key
// nor a failure, to the client and to the observer; an answer of 500 is a failure.
func TestNotStored(t *testing.T) {
	for _, c := range []struct {
		status  int
		key     string
		says    string
		outcome once.Outcome
	}{
		{409, "k", "not-stored", once.OutcomeNotStored},
		{429, "k", "not-stored", once.OutcomeNotStored},
		{503, "k", "not-stored", once.Outcome(once.CodeFailed)},
		{409, "", "ignored", once.OutcomeNotStored},
		{201, "k", "stored", once.OutcomeExecuted},
		{422, "k", "stored", once.OutcomeDeclined},
	} {
		var last lastEvent
		engine := once.New(memstore.New(), once.Config{Observer: &last})
		cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Optional: true, Preset: refundplaybook.Preset()}
		h := oncehttp.Middleware(engine, cfg)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }))
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("Idempotency-Status") != c.says {
			t.Errorf("%d, key %q: %d %v, want %s", c.status, c.key, w.Code, w.Header(), c.says)
		}
		if last.Outcome != c.outcome {
			t.Errorf("%d, key %q: the observer is told %s, want %s", c.status, c.key, last.Outcome, c.outcome)
		}
		if name := refundplaybook.Preset().RetryHeader; c.says == "not-stored" && w.Header().Get(name) != "" {
			t.Errorf("%d says %s: %s, and a retry executes", c.status, name, w.Header().Get(name))
		}
	}
}

// TestChallengeOfA401: our 401 says how to authenticate, and leaves what is said already.
func TestChallengeOfA401(t *testing.T) {
	for _, c := range []struct{ configured, before, want string }{
		{"", "", "Bearer"}, {`Basic realm="x"`, "", `Basic realm="x"`}, {"", "DPoP", "DPoP"},
	} {
		cfg := oncehttp.Config{Principal: func(*http.Request) string { return "" }, Preset: oncehttp.DefaultPreset()}
		cfg.Preset.Challenge = c.configured
		h := oncehttp.Middleware(once.New(memstore.New(), once.Config{}), cfg)(http.NotFoundHandler())
		r, w := httptest.NewRequest(http.MethodPost, "/", http.NoBody), httptest.NewRecorder()
		r.Header.Set("Idempotency-Key", "k")
		if c.before != "" {
			w.Header().Set("WWW-Authenticate", c.before)
		}
		h.ServeHTTP(w, r)
		if got := w.Header().Values("WWW-Authenticate"); w.Code != 401 || len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v: %d %q", c, w.Code, got)
		}
	}
}
