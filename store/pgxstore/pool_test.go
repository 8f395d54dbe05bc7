package pgxstore_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/pgxstore"
)

// TestPoolProtection: others hold the connections, and calls wait for one. Then new work is refused until there are
// connections again, one call at a time looks whether there are, and a replay is answered all the while.
func TestPoolProtection(t *testing.T) {
	t.Parallel()
	const connections, places = 3, 4
	tracer := new(acquiring)
	db := openPool(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = connections, tracer })
	pool := limit.NewPool(limit.PoolConfig{Limit: places, Acquire: 20 * time.Millisecond, Window: 300 * time.Millisecond})
	probe := make(chan struct{})
	handler := oncehttp.Handler(once.New(pgxstore.New(db, pgxstore.Config{}), once.Config{Observer: once.Observers(pool, once.Warnings)}),
		oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: limit.New(limit.Config{Capacity: pool, Queue: -1, Wait: time.Minute})},
		func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) {
			if r.Header.Get("Probe") != "" {
				probe <- struct{}{}
				<-probe
			}
			if _, err := tx.Exec(r.Context(), "select $1::int", 1); err != nil {
				oncehttp.Fail(w, r, err)
				return
			}
			w.WriteHeader(http.StatusCreated)
		})
	ask := func(header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refunds", http.NoBody)
		r.Header.Set("Idempotency-Key", once.NewKey())
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	hold := func(n int) (release func()) {
		var held []*pgxpool.Conn
		for range n {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		return func() {
			for _, c := range held {
				c.Release()
			}
		}
	}
	if w := ask("Idempotency-Key", "done"); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	for round := 0; pool.Limit() > 1; round++ {
		if round == 100 {
			t.Fatalf("%d places, although all calls wait", pool.Limit())
		}
		release, n := hold(connections), pool.Limit()
		var arrived, requests sync.WaitGroup
		arrived.Add(n)
		begun := arrived.Done
		tracer.begun.Store(&begun)
		for range n {
			requests.Go(func() {
				if w := ask("Once-Attempt", "1"); w.Code != http.StatusCreated {
					t.Error(w.Code, w.Body)
				}
			})
		}
		arrived.Wait()
		tracer.begun.Store(nil)
		<-time.After(30 * time.Millisecond)
		release()
		requests.Wait()
	}

	release := hold(1)
	probed := make(chan *httptest.ResponseRecorder, 1)
	go func() { probed <- ask("Probe", "1", "Once-Attempt", "1") }()
	<-probe // it has the one place
	if w := ask("Once-Attempt", "1"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), limit.CodeOverloaded) {
		t.Errorf("new work: %d, %v, %s", w.Code, w.Header(), w.Body)
	}
	if w := ask("Idempotency-Key", "done", "Once-Attempt", "2"); w.Code != http.StatusCreated {
		t.Errorf("a replay: %d, %s", w.Code, w.Body)
	}
	release()
	probe <- struct{}{}
	if w := <-probed; w.Code != http.StatusCreated {
		t.Errorf("the call that looks: %d, %s", w.Code, w.Body)
	}
	for pool.Limit() < places { // by itself, as soon as calls do not wait
		if w := ask("Once-Attempt", "1"); w.Code != http.StatusCreated {
			t.Error(w.Code, w.Body)
		}
	}
}
