package roundtrippertest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// Without a body net/http would repeat a refused stream by itself. It must not: each
// stream is an attempt of ours.
func TestHTTP2WithoutABody(t *testing.T) {
	for _, how := range []refusal{refuseStream, goAway} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			l := &lab{ctx: t.Context()}
			defer l.close()
			s, err := l.serveHTTP2(how)
			if err != nil {
				t.Fatal(err)
			}
			var events []retry.Class
			transport := &retryhttp.Transport{
				Base:   &http.Transport{TLSClientConfig: s.trust, ForceAttemptHTTP2: true},
				Keys:   true,
				Policy: retry.Policy{Observe: func(_ context.Context, e retry.Event) { events = append(events, e.Class) }},
			}
			c := &client{Client: &http.Client{Transport: transport}}
			a, err := l.do(t.Context(), c, method, s.url, "")
			if err := wantStatus(a, err, 200); err != nil {
				t.Fatal(err)
			}
			transport.CloseIdleConnections()
			if streams, _ := s.seen(); streams != 2 || !slices.Equal(events, []retry.Class{retry.ClassUnseen, retry.ClassUnknown}) {
				t.Errorf("%s: %d streams, events of %v", method, streams, events)
			}
		}
	}
}

// On HTTP/1 net/http repeats a GET when a kept-alive connection dies. That is counted, and
// the budget is not asked: the connection has said nothing about the server.
func TestHiddenGETIsFree(t *testing.T) {
	var second atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dies" && !second.Swap(true) {
			reset(w)
		}
	}))
	defer server.Close()
	c := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}}}
	for _, path := range []string{"/", "/dies"} {
		resp, err := c.Get(server.URL + path)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(errors.Join(err, errors.New(path)))
		}
		resp.Body.Close()
	}
	if state := retry.BudgetFor(server.Listener.Addr().String()).State(); state.Spent != 0 || state.Left != 10 || !second.Load() {
		t.Errorf("one hidden repetition and a success: %+v", state)
	}
}
