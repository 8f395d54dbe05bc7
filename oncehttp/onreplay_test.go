package oncehttp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
)

// TestOnReplay: the hook sees each replay, and nothing else. It adds header lines, and cannot change the answer.
func TestOnReplay(t *testing.T) {
	var seen []string
	s := start(t, setup{Config: oncehttp.Config{
		Headers: []string{"X-Kept", "X-Not-Set"},
		OnReplay: func(r *http.Request, rec store.Record, header http.Header) {
			seen = append(seen, r.Header.Get("X-Request-Id")+" "+string(rec.Result.Body)+" "+rec.State.String())
			header.Set("X-Replayed-At", "eu-1")
			header["x-Lower"] = []string{"a", "b"}
			for _, name := range []string{"Location", "Content-Type", "Content-Length", "Transfer-Encoding", "Trailer", "Idempotency-Status", "Idempotent-Replayed", "Idempotency-Redacted", "X-Not-Set", "Etag"} {
				header.Set(name, "99")
			}
			header["location"] = []string{"99"}
		},
	}}, create)
	first := s.post("k", "1", "X-Request-Id", "r1")
	if got := s.post("k", "2", "X-Request-Id", "r2"); got.status != 422 {
		t.Errorf("%+v", got)
	}
	again := s.post("k", "1", "X-Request-Id", "r3")
	if got := strings.Join(seen, ", "); got != "r3 refund 1 done" {
		t.Errorf("the hook has seen %s", got)
	}
	if again.header.Get("X-Replayed-At") != "eu-1" || strings.Join(again.header.Values("X-Lower"), "") != "ab" || first.header.Get("X-Replayed-At") != "" {
		t.Errorf("%v, %v", first.header, again.header)
	}
	if again.status != first.status || again.body != first.body || again.idempotency() != "replayed" || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v", again)
	}
	for _, name := range []string{"Location", "Content-Type", "Content-Length", "Idempotency-Redacted", "X-Not-Set", "Etag"} {
		if got, want := strings.Join(again.header.Values(name), ", "), strings.Join(first.header.Values(name), ", "); got != want {
			t.Errorf("%s: %q, it was %q", name, got, want)
		}
	}
}

type requestID struct{}

// TestRequestID: the observer, and so the log, has the id that middleware has made, and that of the header where there is none.
func TestRequestID(t *testing.T) {
	made := ""
	s := start(t, setup{
		Config: oncehttp.Config{RequestID: func(ctx context.Context) string { id, _ := ctx.Value(requestID{}).(string); return id }},
		around: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestID{}, made)))
			})
		},
	}, create)
	for _, c := range []struct{ made, want string }{{"host/abc-1", "host/abc-1"}, {"", "sent"}, {"two\nlines", "sent"}, {strings.Repeat("x", 129), "sent"}} {
		made = c.made
		s.post("k", "1", "X-Request-Id", "sent")
		if e := s.log.last(); e.Attempt.RequestID != c.want || e.Outcome == once.OutcomeDeclined {
			t.Errorf("%q: %+v", c.made, e.Attempt)
		}
	}
}
