package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/pgxstore"
)

// Many clients on a small pool, with and without limit.Pool.

const (
	herdClients     = 400
	herdConnections = 8
	herdReplayers   = 20
	herdPatience    = 500 * time.Millisecond // of a client; then it repeats the request
	herdWork        = "select pg_sleep(0.01)"
)

// herd has the results of the requests of each side.
type herd struct {
	Took  time.Duration `json:"took_ns"`
	Sides []herdSide    `json:"sides"`
}

type herdSide struct {
	Name      string        `json:"name"`
	Served    float64       `json:"served_per_second"` // new work, in time
	P99       time.Duration `json:"p99_ns"`            // of new work that was answered in time
	Late      float64       `json:"late_per_second"`   // given up by the client
	Shed      float64       `json:"shed_per_second"`   // refused at once
	Waiting   float64       `json:"waiting"`           // for a connection, on average
	Replays   float64       `json:"replays_per_second"`
	Answered  float64       `json:"replays_answered"` // share of all requested replays
	ReplayP99 time.Duration `json:"replay_p99_ns"`
}

// waiters counts calls that wait for a connection of the pool.
type waiters struct{ now atomic.Int64 }

func (w *waiters) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (w *waiters) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (w *waiters) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	w.now.Add(1)
	return ctx
}

func (w *waiters) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {
	w.now.Add(-1)
}

// answers collects the answers to clients of one kind.
type answers struct {
	mu         sync.Mutex
	took       []time.Duration // of those in time
	late, shed int
}

func (a *answers) note(status int, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case took <= herdPatience && status == http.StatusCreated:
		a.took = append(a.took, took)
	case status == http.StatusServiceUnavailable && took <= herdPatience:
		a.shed++
	default:
		a.late++
	}
}

// p99 is the p99 of the answers in time.
func (a *answers) p99() time.Duration {
	if len(a.took) == 0 {
		return 0
	}
	slices.Sort(a.took)
	return a.took[len(a.took)*99/100]
}

func (b *bench) herd(ctx context.Context) (*herd, error) {
	h := &herd{Took: 10 * time.Second}
	if b.quick {
		h.Took = 3 * time.Second
	}
	for _, side := range []struct {
		name string
		gate func(*pgxpool.Pool) (*limit.Pool, oncehttp.Gate)
	}{
		{"without", func(*pgxpool.Pool) (*limit.Pool, oncehttp.Gate) { return nil, nil }},
		{"limit.Pool, by waits", func(*pgxpool.Pool) (*limit.Pool, oncehttp.Gate) { return protectPool(limit.PoolConfig{}) }},
		{"limit.Pool, by waits and connections", func(db *pgxpool.Pool) (*limit.Pool, oncehttp.Gate) {
			return protectPool(limit.PoolConfig{Stat: func() (int, int) { s := db.Stat(); return int(s.AcquiredConns()), int(s.MaxConns()) }})
		}},
	} {
		s, err := b.herdOn(ctx, h.Took, side.gate)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
		s.Name = side.name
		h.Sides = append(h.Sides, s)
	}
	return h, nil
}

func protectPool(cfg limit.PoolConfig) (*limit.Pool, oncehttp.Gate) {
	p := limit.NewPool(cfg)
	return p, limit.New(limit.Config{Capacity: p, Wait: herdPatience / 2})
}

// untilServed sends one operation until it is done.
func (a *answers) untilServed(ask func(key string, attempt int) (status int, took, after time.Duration), end time.Time) {
	key := once.NewKey()
	for attempt, served := 1, false; !served && time.Now().Before(end); attempt++ {
		status, took, after := ask(key, attempt)
		a.note(status, took)
		if served = status == http.StatusCreated; !served {
			<-time.After(min(after, time.Until(end)))
		}
	}
}

func (b *bench) herdOn(ctx context.Context, lasts time.Duration, gate func(*pgxpool.Pool) (*limit.Pool, oncehttp.Gate)) (side herdSide, err error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return side, err
	}
	var waiting waiters
	db, err := b.server.pool(ctx, database, herdConnections, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = &waiting })
	if err != nil {
		return side, err
	}
	defer db.Close()
	s := pgxstore.New(db, pgxstore.Config{})
	if err := s.Warm(ctx, herdConnections); err != nil {
		return side, err
	}
	pool, g := gate(db)
	cfg := once.Config{Observer: once.Discard}
	if pool != nil {
		cfg.Observer = once.Observers(pool)
	}
	ask, err := herdClient(ctx, oncehttp.Handler(once.New(s, cfg), oncehttp.Config{Principal: oncehttp.SharedPrincipal(), Gate: g}, herdHandler))
	if err != nil {
		return side, err
	}
	done := once.NewKey()
	if status, _, _ := ask(done, 1); status != http.StatusCreated {
		return side, errors.New("the first operation has failed")
	}

	var fresh, replayed answers
	end := time.Now().Add(lasts)
	var clients sync.WaitGroup
	for range herdClients {
		clients.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				fresh.untilServed(ask, end)
			}
		})
	}
	for range herdReplayers {
		clients.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				status, took, _ := ask(done, 2)
				replayed.note(status, took)
				<-time.After(rand.N(100 * time.Millisecond))
			}
		})
	}
	looks, sum := 0, int64(0)
	for time.Now().Before(end) {
		<-time.After(10 * time.Millisecond)
		looks++
		sum += waiting.now.Load()
	}
	clients.Wait()
	per := func(n int) float64 { return float64(n) / lasts.Seconds() }
	asked := len(replayed.took) + replayed.late + replayed.shed
	return herdSide{
		Served: per(len(fresh.took)), P99: fresh.p99(), Late: per(fresh.late), Shed: per(fresh.shed),
		Waiting: float64(sum) / float64(max(1, looks)),
		Replays: per(len(replayed.took)), Answered: float64(len(replayed.took)) / float64(max(1, asked)), ReplayP99: replayed.p99(),
	}, ctx.Err()
}

// herdHandler does the work: it takes some time, and makes two inserts.
func herdHandler(w http.ResponseWriter, r *http.Request, tx pgx.Tx) {
	o, err := readOrder(r)
	if err == nil {
		_, err = tx.Exec(r.Context(), herdWork)
	}
	var got receipt
	if err == nil {
		got, err = o.place(r.Context(), tx)
	}
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	writeReceipt(w, got, nil)
}

// herdClient returns a function that sends a request, with the timeout of a client.
func herdClient(ctx context.Context, handler http.Handler) (ask func(key string, attempt int) (status int, took, after time.Duration), err error) {
	body, err := json.Marshal(newOrder())
	return func(key string, attempt int) (status int, took, after time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, herdPatience)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/charges", bytes.NewReader(body))
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Once-Attempt", strconv.Itoa(attempt))
		w := httptest.NewRecorder()
		began := time.Now()
		handler.ServeHTTP(w, r)
		seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
		return w.Code, time.Since(began), time.Duration(seconds) * time.Second
	}, err
}

func (h *herd) write(p printer) {
	p("\n## A herd on a small pool\n")
	p("%d clients ask for new work without a pause, on a pool of %d connections; one transaction takes 10 ms and two inserts. A", herdClients, herdConnections)
	p("client waits %s for its answer, and then sends the same again; when it is refused it waits as long as Retry-After says.", millis(herdPatience))
	p("Beside them, %d clients ask for something that was executed before. **limit.Pool** is the capacity of the gate. In the process,", herdReplayers)
	p("without sockets, for %v each.\n", h.Took)
	p("| | served in time, a second | their p99 | given up by the client, a second | refused at once, a second | calls waiting for a connection | replays answered in time | their p99 |")
	p("|---|---|---|---|---|---|---|---|")
	for _, s := range h.Sides {
		p("| %s | %.0f | %s | %.0f | %.0f | %.1f | %.1f %% (%.0f a second) | %s |", s.Name, s.Served, millis(s.P99), s.Late, s.Shed, s.Waiting, 100*s.Answered, s.Replays, millis(s.ReplayP99))
	}
}
