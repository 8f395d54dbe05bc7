package oncehttp_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
)

type accountKey struct{}

func account(r *http.Request) string {
	a, _ := r.Context().Value(accountKey{}).(string)
	return a
}

// authenticate is outside of the middleware: it sees every request.
func authenticate(accounts map[string]string, forbidden map[string]bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a, known := accounts[r.Header.Get("Authorization")]
			switch {
			case !known:
				w.Header().Set("WWW-Authenticate", "Bearer")
				w.WriteHeader(http.StatusUnauthorized)
			case forbidden[a]:
				w.WriteHeader(http.StatusForbidden)
			default:
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, a)))
			}
		})
	}
}

func TestAuthenticationOfEachCaller(t *testing.T) {
	for _, engine := range []once.Config{{}, {Cache: 1 << 20}} {
		testAuthentication(t, engine)
	}
}

func testAuthentication(t *testing.T, engine once.Config) {
	t.Helper()
	accounts, forbidden := map[string]string{"token-a": "a", "token-b": "b"}, map[string]bool{}
	s := start(t, setup{Config: oncehttp.Config{Principal: account}, engine: engine, around: authenticate(accounts, forbidden)}, create)
	ask := func(token string, status int, body, idempotency string) {
		t.Helper()
		if got := s.post("k", "1000", "Authorization", token); got.status != status || got.body != body || got.idempotency() != idempotency {
			t.Errorf("%+v", got)
		}
	}
	ask("token-c", 401, "", "") // not stored:
	accounts["token-c"] = "a"
	ask("token-c", 201, "refund 1", "stored")
	ask("token-a", 201, "refund 1", "replayed") // the account counts, not its token
	ask("token-b", 201, "refund 2", "stored")   // another account has its own operation under the same key
	forbidden["a"] = true
	ask("token-a", 403, "", "") // a replay is authorised like any request
	delete(accounts, "token-a")
	ask("token-a", 401, "", "")
	ask("token-b", 201, "refund 2", "replayed")
	forbidden["a"] = false
	ask("token-c", 201, "refund 1", "replayed")
	s.expect(2, "n", 2)
}

func TestUnauthenticatedRequestsAskNoStore(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Principal: func(*http.Request) string { return "" }, Optional: true}}, create)
	for _, header := range [][]string{{"Idempotency-Key", "k"}, {"Idempotency-Key", ""}, {}} { // it comes before every other check
		got := s.send("POST", "/refunds", "", header...)
		if got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("a 401 without a challenge: %v", got.header)
		}
		if p := got.problem(t); got.status != 401 || p.Code != oncehttp.ProblemUnauthenticated || p.Retryable || p.SafeNewKey {
			t.Errorf("%q: %+v", header, p)
		}
	}
	if s.store.asks.Load() != 0 {
		t.Error("the store was asked")
	}
	s.expect(0, "n", 0)
}
