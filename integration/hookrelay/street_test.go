package hookrelay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/webhook"
)

// patience bounds what should end by itself.
const patience = 60 * time.Second

// arrival is a request that an endpoint got.
type arrival struct{ endpoint, id, body, note string }

// behavior is what an endpoint does with a request: n is its number, from 1. It returns the status.
type behavior func(n int, r *http.Request, w http.ResponseWriter) int

// street is where all endpoints of a test are: each has a path. What arrives is counted when it arrives, whatever is answered.
type street struct {
	url    string
	verify *webhook.Verifier

	mu       sync.Mutex
	behave   map[string]behavior
	counts   map[string]int
	got      []arrival
	distinct map[[2]string]struct{} // endpoint and event
	underWay map[string]int
	most     map[string]int // at once
	changed  chan struct{}  // closed with the next change
	ended    chan struct{}  // what hangs ends
	end      func()
}

// secret is that of all endpoints.
var secret = "whsec_" + strings.Repeat("c2VjcmV0", 4)

func newStreet(t *testing.T) *street {
	t.Helper()
	s := &street{
		verify: webhook.Standard(secret), behave: map[string]behavior{}, counts: map[string]int{}, underWay: map[string]int{}, most: map[string]int{},
		changed: make(chan struct{}), ended: make(chan struct{}), distinct: map[[2]string]struct{}{},
	}
	s.end = sync.OnceFunc(func() { close(s.ended) })
	server := httptest.NewServer(s)
	s.url = server.URL
	t.Cleanup(func() {
		s.end()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *street) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	endpoint := strings.TrimPrefix(r.URL.Path, "/")
	a := arrival{endpoint: endpoint, id: r.Header.Get(webhook.HeaderID), body: string(body)}
	if err != nil {
		return
	}
	if _, err := s.verify.Verify(r.Header, body); err != nil {
		a.note = err.Error()
	}
	s.mu.Lock()
	s.got = append(s.got, a)
	s.distinct[[2]string{endpoint, a.id}] = struct{}{}
	s.counts[endpoint]++
	n, does := s.counts[endpoint], s.behave[endpoint]
	s.underWay[endpoint]++
	s.most[endpoint] = max(s.most[endpoint], s.underWay[endpoint])
	s.change()
	s.mu.Unlock()
	status := http.StatusNoContent
	if does != nil {
		status = does(n, r, w)
	}
	s.mu.Lock()
	s.underWay[endpoint]--
	s.mu.Unlock()
	w.WriteHeader(status)
}

func (s *street) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// set says what an endpoint does from now on.
func (s *street) set(endpoint string, does behavior) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behave[endpoint] = does
}

// hangs is an endpoint that never answers.
func (s *street) hangs(_ int, r *http.Request, _ http.ResponseWriter) int {
	select {
	case <-s.ended:
	case <-r.Context().Done():
	}
	return http.StatusServiceUnavailable
}

// fails is an endpoint that answers so always.
func fails(status int) behavior {
	return func(int, *http.Request, http.ResponseWriter) int { return status }
}

// wait waits until what has arrived is as it should be.
func (s *street) wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		n := len(s.got)
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited too long for %s; %d requests have arrived", what, n)
		}
	}
}

// waitFor waits until an endpoint has got so many requests.
func (s *street) waitFor(t *testing.T, endpoint string, n int) {
	t.Helper()
	s.wait(t, fmt.Sprintf("%d requests to %s", n, endpoint), func() bool { return s.counts[endpoint] >= n })
}

// arrived are the requests to an endpoint; "": to all.
func (s *street) arrived(endpoint string) []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.got)
	return slices.DeleteFunc(list, func(a arrival) bool { return endpoint != "" && a.endpoint != endpoint })
}

// ids are how often each event has arrived at an endpoint.
func (s *street) ids(endpoint string) map[string]int {
	counts := map[string]int{}
	for _, a := range s.arrived(endpoint) {
		counts[a.id]++
	}
	return counts
}

// events records what a relay tells.
type events struct {
	mu      sync.Mutex
	list    []webhook.RelayEvent
	changed chan struct{}
}

func newEvents() *events { return &events{changed: make(chan struct{})} }

// Observe implements webhook.RelayObserver.
func (e *events) Observe(_ context.Context, event webhook.RelayEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
	close(e.changed)
	e.changed = make(chan struct{})
}

// wait waits for the nth event of a type to an endpoint; "": to any.
func (e *events) wait(t *testing.T, what webhook.RelayEventType, endpoint string, n int) webhook.RelayEvent {
	t.Helper()
	timeout := time.After(patience)
	for {
		e.mu.Lock()
		changed, found := e.changed, 0
		for _, event := range e.list {
			if event.Type == what && (endpoint == "" || event.Endpoint == endpoint) {
				if found++; found == n {
					e.mu.Unlock()
					return event
				}
			}
		}
		list := e.list
		e.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited too long for %s of %s: %d events, the last: %+v", what, endpoint, len(list), list[max(0, len(list)-3):])
		}
	}
}

func (e *events) count(what webhook.RelayEventType) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.list {
		if event.Type == what {
			n++
		}
	}
	return n
}
