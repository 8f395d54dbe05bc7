package limit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
)

const ms = time.Millisecond

// after passes d: in a test under synctest, no time at all.
func after(d time.Duration) { <-time.After(d) }

// work takes d, unless its client goes.
func work(d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// unread is a body that must not be looked at.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, io.EOF }
func (u unread) Close() error             { return nil }

type answer struct {
	status int
	after  time.Duration // Retry-After
	took   time.Duration
	body   string
}

// ask sends a request; header are pairs of name and value.
func ask(ctx context.Context, h http.Handler, tenant string, header ...string) answer {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Tenant", tenant)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return send(h, r)
}

func send(h http.Handler, r *http.Request) answer {
	w := httptest.NewRecorder()
	start := time.Now()
	h.ServeHTTP(w, r)
	s, _ := strconv.Atoi(w.Header().Get("Retry-After"))
	return answer{w.Code, time.Duration(s) * time.Second, time.Since(start), w.Body.String()}
}

func tenant(r *http.Request) string { return r.Header.Get("Tenant") }

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 2, Queue: 3})
		h := l.Middleware(work(100 * ms))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if a := ask(t.Context(), h, ""); a.status != http.StatusNoContent || a.took > 300*ms {
					t.Errorf("%+v", a)
				}
			})
		}
		synctest.Wait()
		if s := l.State(); s.Running != 2 || s.Waiting != 3 {
			t.Errorf("%+v", s)
		}
		for range 5 { // the bodies of those who are refused are not read
			r := httptest.NewRequest(http.MethodPost, "/", unread{t})
			a := send(h, r)
			if a.status != http.StatusServiceUnavailable || a.took != 0 || a.after < time.Second || !strings.Contains(a.body, `"code":"TRANSIENT.overloaded"`) ||
				!strings.Contains(a.body, `"retryable":true`) || !strings.Contains(a.body, `"safe_new_key":false`) {
				t.Errorf("%+v", a)
			}
		}
		wg.Wait()
		if s := l.State(); s.Running != 0 || s.Waiting != 0 || s.Admitted != 5 || s.Full != 5 || s.Took != 100*ms {
			t.Errorf("%+v", s)
		}
	})
}

// One who sends a hundred times as much does not take away what others need.
func TestTenantsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 4, Queue: 20, Tenant: tenant})
		h := l.Middleware(work(40 * ms)) // 100 a second
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		hog := map[int]int{}
		wg.Go(func() {
			for ctx.Err() == nil {
				wg.Go(func() {
					a := ask(t.Context(), h, "hog")
					mu.Lock()
					hog[a.status]++
					mu.Unlock()
				})
				after(ms) // 1000 a second
			}
		})
		served := 0
		for range 100 {
			for _, small := range []string{"a", "b"} {
				if a := ask(t.Context(), h, small); a.status != http.StatusNoContent || a.took > 200*ms {
					t.Errorf("%s: %+v", small, a)
				} else {
					served++
				}
			}
			after(10 * ms)
		}
		cancel()
		wg.Wait()
		if served != 200 || hog[http.StatusNoContent] < 200 || hog[http.StatusTooManyRequests] < 1000 {
			t.Errorf("%d served of the small ones, %v of the hog", served, hog)
		}
	})
}

// A request whose client would be gone before its turn is refused at once.
func TestTimeBudgetRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 1, Queue: 10, Wait: time.Minute})
		h := l.Middleware(work(time.Second))
		ask(t.Context(), h, "") // now it is known how long they take
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { ask(t.Context(), h, "") })
			synctest.Wait()
		}
		for _, late := range []string{"3000", "4.9s", "1"} { // the turn comes in 4 s, and its end in 5 s
			if a := ask(t.Context(), h, "", "X-Request-Timeout", late); a.status != http.StatusServiceUnavailable || a.took != 0 || a.after < 4*time.Second {
				t.Errorf("%s: %+v", late, a)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if a := ask(ctx, h, ""); a.status != http.StatusServiceUnavailable || a.took != 0 {
			t.Errorf("a context that ends in 3 s: %+v", a)
		}
		if a := ask(t.Context(), h, "", "X-Request-Timeout", "5100"); a.status != http.StatusNoContent || a.took != 5*time.Second {
			t.Errorf("5.1 s: %+v", a)
		}
		wg.Wait()
		if s := l.State(); s.Late != 4 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 1, Wait: 300 * ms})
		h := l.Middleware(work(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { ask(ctx, h, "") })
		synctest.Wait()
		if a := ask(t.Context(), h, ""); a.status != http.StatusServiceUnavailable || a.took != 300*ms {
			t.Errorf("%+v", a)
		}
		if a := ask(t.Context(), h, "", "X-Request-Timeout", "200ms"); a.status != http.StatusServiceUnavailable || a.took > 200*ms {
			t.Errorf("with a budget: %+v", a)
		}
		gone, leave := context.WithTimeoutCause(t.Context(), 100*ms, errors.New("gone"))
		defer leave()
		if a := ask(gone, h, ""); a.took > 100*ms {
			t.Errorf("of a client that has gone: %+v", a)
		}
		cancel()
		wg.Wait()
		if s := l.State(); s.Running != 0 || s.Waiting != 0 || s.Admitted != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAPanicGivesItsPlaceBack(t *testing.T) {
	l := limit.New(limit.Config{Limit: 1})
	h := l.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("handler") }))
	for range 3 {
		func() {
			defer func() { _ = recover() }()
			ask(t.Context(), h, "")
		}()
	}
	if s := l.State(); s.Running != 0 || s.Admitted != 3 {
		t.Errorf("%+v", s)
	}
}

func TestInvalidConfig(t *testing.T) {
	for _, cfg := range []limit.Config{{Limit: -1}, {Wait: -1}} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.Contains(s, "Try: ") {
					t.Errorf("%+v: %q", cfg, s)
				}
			}()
			limit.New(cfg)
		}()
	}
}

var _ oncehttp.Gate = (*limit.Limiter)(nil)
