package limit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// counting counts what reaches the store, and holds look-ups back if it is told to.
type counting struct {
	*memstore.Store

	begun, read atomic.Int64
	hold        chan struct{}
}

func (c *counting) Begin(ctx context.Context, a store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	c.begun.Add(1)
	return c.Store.Begin(ctx, a)
}

func (c *counting) Read(ctx context.Context, id store.ID) (store.Record, error) {
	c.read.Add(1)
	if c.hold != nil {
		<-c.hold
	}
	return c.Store.Read(ctx, id)
}

// service executes until it is told to end.
func service(s *counting, l *limit.Limiter, end <-chan struct{}) http.Handler {
	engine := once.New[*memstore.Tx](s, once.Config{})
	return oncehttp.Middleware(engine, oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: l})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Slow") != "" {
				<-end
			}
			if err := oncehttp.Tx[*memstore.Tx](r.Context()).Put("k", "v"); err != nil {
				oncehttp.Fail(w, r, err)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))
}

// Where all places are taken, what was executed is answered from the record and what was
// not is refused, unread and without a transaction.
func TestReplaysPassWhereNewWorkIsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 2, Queue: -1, Replays: 1})
		s := &counting{Store: memstore.New()}
		end := make(chan struct{})
		h := service(s, l, end)
		if a := ask(t.Context(), h, "", "Idempotency-Key", "done"); a.status != http.StatusCreated {
			t.Fatalf("%+v", a)
		}
		var wg sync.WaitGroup
		for _, key := range []string{"slow1", "slow2"} {
			wg.Go(func() { ask(t.Context(), h, "", "Idempotency-Key", key, "Slow", "1") })
		}
		synctest.Wait()
		begun, read := s.begun.Load(), s.read.Load()
		for _, attempt := range []string{"", "2"} {
			if a := ask(t.Context(), h, "", "Idempotency-Key", "done", "Once-Attempt", attempt); a.status != http.StatusCreated {
				t.Errorf("a replay: %+v", a)
			}
		}
		if s.begun.Load() != begun || s.read.Load() == read {
			t.Errorf("replays have taken %d transactions", s.begun.Load()-begun)
		}
		for _, header := range [][]string{
			{"Idempotency-Key", "new"},
			{"Idempotency-Key", "new", "Once-Attempt", "1"},
			{"Idempotency-Key", "done", "Once-Attempt", "1"}, // it has said that it is no retry
			{"Idempotency-Key", "slow1", "Once-Attempt", "2"},
		} {
			r := httptest.NewRequest(http.MethodPost, "/", unread{t})
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			read := s.read.Load()
			a := send(h, r)
			if a.status != http.StatusServiceUnavailable || a.after == 0 || !strings.Contains(a.body, limit.CodeOverloaded) || s.begun.Load() != begun {
				t.Errorf("%v: %+v", header, a)
			}
			if r.Header.Get("Once-Attempt") == "1" && s.read.Load() != read {
				t.Errorf("%v was looked up", header)
			}
		}
		close(end)
		wg.Wait()
		if s := l.State(); s.Running != 0 || s.Admitted != 3 || s.Replays != 2 || s.Full != 4 {
			t.Errorf("%+v", s)
		}
		if a := ask(t.Context(), h, "", "Idempotency-Key", "new"); a.status != http.StatusCreated {
			t.Errorf("when there is room again: %+v", a)
		}
	})
}

// Look-ups have a limit of their own: beyond, a retry is like any other request.
func TestLookUpsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Limit: 1, Queue: -1, Replays: 2})
		s := &counting{Store: memstore.New(), hold: make(chan struct{})}
		end := make(chan struct{})
		h := service(s, l, end)
		var wg sync.WaitGroup
		wg.Go(func() { ask(t.Context(), h, "", "Idempotency-Key", "slow", "Slow", "1") })
		synctest.Wait()
		for range 2 {
			wg.Go(func() { ask(t.Context(), h, "", "Idempotency-Key", "new") })
		}
		synctest.Wait()
		if n := s.read.Load(); n != 2 {
			t.Errorf("%d are looked up", n)
		}
		if a := ask(t.Context(), h, "", "Idempotency-Key", "new"); a.status != http.StatusServiceUnavailable || s.read.Load() != 2 {
			t.Errorf("a third one: %+v, %d look-ups", a, s.read.Load())
		}
		close(s.hold)
		synctest.Wait() // while the place is still taken
		close(end)
		wg.Wait()
		if s := l.State(); s.Running != 0 || s.Replays != 0 || s.Full != 3 {
			t.Errorf("%+v", s)
		}
	})
}
