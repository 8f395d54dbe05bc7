package oncehttp_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

const duplicates = 96

// at sends the same request n times at once.
func (s *service) at(n int) []response {
	got := make([]response, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			var err error
			if got[i], err = s.try("POST", "/refunds", "1000", "Idempotency-Key", "k"); err != nil {
				s.t.Error(err)
			}
		})
	}
	done.Wait()
	return got
}

func TestDuplicatesAtOnce(t *testing.T) {
	for name, wait := range map[string]time.Duration{"reject": 0, "wait": time.Minute} {
		s := start(t, setup{Config: oncehttp.Config{Wait: wait}}, create)
		var stored, replayed, inFlight int
		for _, got := range s.at(duplicates) {
			switch {
			case got.status == 409 && wait == 0:
				if p := got.problem(t); p.Code != oncehttp.ProblemInFlight || !p.Retryable || p.SafeNewKey || got.header.Get("Retry-After") != "1" {
					t.Errorf("%s: %+v", name, p)
				}
				inFlight++
			case got.status != 201 || got.body != "refund 1" || got.header.Get("Location") != "/refunds/1":
				t.Errorf("%s: %+v", name, got)
			case got.idempotency() == "stored":
				stored++
			default:
				replayed++
			}
		}
		if stored != 1 || stored+replayed+inFlight != duplicates {
			t.Errorf("%s: %d stored, %d replayed, %d in flight", name, stored, replayed, inFlight)
		}
		s.expect(1, "n", 1)
	}
}

// Different operations that touch the same rows: every one of them takes effect.
func TestContentionLosesNoOperation(t *testing.T) {
	s := start(t, setup{engine: once.Config{Runs: 1000}}, create)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			for range 2 {
				if got := s.post("k"+strconv.Itoa(i), ""); got.status != 201 {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	wg.Wait()
	if v, _ := s.store.Get("n"); v != "24" {
		t.Errorf("%s effects", v)
	}
}

// held is a handler that can be looked at while it runs.
type held struct{ started, release chan struct{} }

func newHeld() held { return held{make(chan struct{}, duplicates), make(chan struct{})} }

func (h held) create(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
	h.started <- struct{}{}
	<-h.release
	create(w, r, tx)
}

func TestInFlight(t *testing.T) {
	h := newHeld()
	url := func(r *http.Request, key string) string { return "/operations/" + key }
	s := start(t, setup{Config: oncehttp.Config{StatusURL: url}}, h.create)
	first := make(chan response)
	go func() { first <- s.post("k", "") }()
	<-h.started
	got := s.post("k", "")
	if p := got.problem(t); got.status != 409 || p.Code != oncehttp.ProblemInFlight || !p.Retryable || p.SafeNewKey || got.header.Get("Retry-After") != "1" || p.StatusURL != "/operations/k" {
		t.Errorf("%+v", p)
	}
	close(h.release)
	if got := <-first; got.status != 201 || got.idempotency() != "stored" {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 1)
}

func TestWaitIsBounded(t *testing.T) {
	h := newHeld()
	for name, c := range map[string]struct {
		wait   time.Duration
		header []string
	}{
		"by the route":            {20 * time.Millisecond, nil},
		"by the client":           {time.Hour, []string{"X-Request-Timeout", "20"}},
		"by the client, in words": {time.Hour, []string{"X-Request-Timeout", "20ms"}},
	} {
		s := start(t, setup{Config: oncehttp.Config{Wait: c.wait}}, h.create)
		first := make(chan response)
		go func() { first <- s.post("k", "") }()
		<-h.started
		if got := s.post("k", "", c.header...); got.status != 409 || got.problem(t).Code != oncehttp.ProblemInFlight {
			t.Errorf("%s: %+v", name, got)
		}
		h.release <- struct{}{}
		<-first
	}
}

func TestWaitersGetTheAnswer(t *testing.T) {
	h := newHeld()
	s := start(t, setup{Config: oncehttp.Config{Wait: time.Minute}}, h.create)
	got := make(chan response)
	go func() { got <- s.post("k", "") }()
	<-h.started
	go func() { got <- s.post("k", "", "X-Request-Timeout", "60000") }()
	close(h.release)
	a, b := <-got, <-got
	if a.status != 201 || b.status != 201 || a.body != b.body {
		t.Errorf("%+v, %+v", a, b)
	}
	s.expect(1, "n", 1)
}

// A client that goes away in the middle does not change what becomes of its operation.
func TestDisconnectChangesNoOutcome(t *testing.T) {
	for name, handled := range map[string]handler{
		"completes": create,
		"gives up": func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			increment(tx, "n")
			oncehttp.Fail(w, r, r.Context().Err())
		},
	} {
		started, over := make(chan struct{}, 2), make(chan struct{}, 2)
		gone := true
		s := start(t, setup{around: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				over <- struct{}{}
			})
		}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			if started <- struct{}{}; gone {
				<-r.Context().Done()
				handled(w, r, tx)
			} else {
				create(w, r, tx)
			}
		})
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST /refunds HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-started
		c.Close()
		<-over
		gone = false
		want := map[string]string{"completes": "replayed", "gives up": "stored"}[name]
		if got := s.post("k", ""); got.status != 201 || got.idempotency() != want || got.body != "refund 1" {
			t.Errorf("%s: %+v", name, got)
		}
		if v, _ := s.store.Get("n"); v != "1" {
			t.Errorf("%s: %s effects", name, v)
		}
	}
}

func TestPanickingHandlerHasNoEffect(t *testing.T) {
	for name, value := range map[string]any{"abort": http.ErrAbortHandler, "text": "boom"} {
		panics := true
		s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			create(w, r, tx)
			if panics {
				panic(value)
			}
		})
		if got, err := s.try("POST", "/refunds", "", "Idempotency-Key", "k"); err == nil {
			t.Errorf("%s: an answer: %+v", name, got)
		}
		s.expect(1, "n", 0)
		panics = false
		if got := s.post("k", ""); got.status != 201 || got.idempotency() != "stored" {
			t.Errorf("%s: %+v", name, got)
		}
		s.expect(2, "n", 1)
	}
}

// What a panicking handler has left in the header does not reach middleware that
// turns the panic into an answer.
func TestPanicLeavesNoHeader(t *testing.T) {
	s := start(t, setup{around: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v", p)
				}
				http.Error(w, "recovered", http.StatusInternalServerError)
			}()
			next.ServeHTTP(w, r)
		})
	}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		create(w, r, tx)
		panic("boom")
	})
	if got := s.post("k", ""); got.status != 500 || got.body != "recovered\n" || got.header.Get("Location") != "" || got.idempotency() != "" {
		t.Errorf("%+v", got)
	}
}
