package oncehttp_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// http.TimeoutHandler answers while its handler may still be at work. Outside of the
// middleware its 503 says nothing about the operation, and the same key tells. Inside it is
// the answer: the operation is rolled back, and what the handler does afterwards is refused.
func TestTimeoutHandler(t *testing.T) {
	timeout := func(next http.Handler) http.Handler {
		return http.TimeoutHandler(next, 50*time.Millisecond, "too slow")
	}
	for name, c := range map[string]struct {
		around, inside func(http.Handler) http.Handler
		first          int // effects
	}{"outside": {timeout, nil, 1}, "inside": {nil, timeout, 0}} {
		t.Run(name, func(t *testing.T) {
			slow, late, answered := true, chan error(nil), chan bool(nil)
			s := start(t, setup{Config: oncehttp.Config{Wait: time.Minute}, around: c.around, inside: c.inside}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				if slow {
					slow = false
					if c.around != nil {
						<-r.Context().Done()
					} else {
						<-answered
					}
					err := tx.Put("late", "1")
					if late <- err; err != nil {
						oncehttp.Fail(w, r, err)
						oncehttp.Decide(r.Context(), oncehttp.VerdictCommit)
						return
					}
				}
				create(w, r, tx)
			})
			synctest.Test(t, func(t *testing.T) { // where the timeout cannot end before the handler begins
				late, answered = make(chan error, 1), make(chan bool)
				if got := roundTrip(s.handler, "POST", "/refunds", "", "k"); got.status != 503 || got.body != "too slow" {
					t.Fatalf("%+v", got)
				}
				close(answered)
				switch err := <-late; {
				case c.first == 1 && err != nil:
					t.Errorf("the handler was still inside: %v", err)
				case c.first == 0 && err == nil:
					t.Error("a write after the end of the transaction is not refused")
				}
				want := map[int]string{1: "replayed", 0: "stored"}[c.first]
				if got := roundTrip(s.handler, "POST", "/refunds", "", "k"); got.status != 201 || got.idempotency() != want {
					t.Errorf("the retry: %+v", got)
				}
			})
			s.expect(int64(2-c.first), "n", 1)
			if v, _ := s.store.Get("late"); v == "1" != (c.first == 1) {
				t.Errorf("late: %q", v)
			}
		})
	}
}

// What a handler that was left behind says of its operation races with nothing.
func TestFailOfAHandlerThatWasLeftBehind(t *testing.T) {
	over := make(chan bool)
	s := start(t, setup{inside: func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Millisecond, "too slow") }}, func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
		<-r.Context().Done()
		oncehttp.Fail(w, r, r.Context().Err())
		oncehttp.Decide(r.Context(), oncehttp.VerdictCommit)
		over <- true
	})
	for range 20 {
		if got := s.post("k", ""); got.status != 503 && got.status != 500 || got.idempotency() == "stored" {
			t.Errorf("%+v", got)
		}
		<-over
	}
}

// What recovers from panics belongs outside. Inside, an answer that has begun before the
// panic is one like any other, and is committed.
func TestRecoveringMiddleware(t *testing.T) {
	recovers := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
	for name, c := range map[string]struct {
		setup
		answers bool // before it panics
		status  int
		says    string // of the retry
	}{
		"outside":                  {setup{around: recovers}, false, 500, "stored"},
		"outside, after an answer": {setup{around: recovers}, true, 500, "stored"},
		"inside":                   {setup{inside: recovers}, false, 500, "stored"},
		"inside, after an answer":  {setup{inside: recovers}, true, 201, "replayed"},
	} {
		panics := true
		s := start(t, c.setup, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
			if c.answers || !panics {
				create(w, r, tx)
			}
			if panics {
				panic("boom")
			}
		})
		first := s.post("k", "")
		panics = false
		if again := s.post("k", ""); first.status != c.status || again.status != 201 || again.idempotency() != c.says {
			t.Errorf("%s: %+v, then %+v", name, first, again)
		}
		if v, _ := s.store.Get("n"); v != "1" {
			t.Errorf("%s: %s effects", name, v)
		}
	}
}
