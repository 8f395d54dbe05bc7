package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

// hookScenario is the behaviour of the endpoints that are not measured.
type hookScenario struct {
	name       string
	hang, fail int  // percent of the endpoints
	waiting    int  // at these endpoints
	later      int  // at all endpoints, due in the next day
	big        int  // at the first endpoint, which is healthy
	silent     bool // no other event is sent
	apart      bool // nothing wakes the relay
}

// hookRun is one window.
type hookRun struct {
	p50, p99, longest time.Duration
	undelivered       int
	buffers           int
	heap              int64
	big               float64
	load              string
}

// hookField is endpoints, and a database with waiting events for each scenario.
type hookField struct {
	server    *server
	databases map[string]string // by scenario
	pool      *pgxpool.Pool     // of the scenario under way
	ports     []int             // of the endpoints
	sent      int               // events, of all windows
	cfg       webhook.Config
	claim     claimTracer
	stops     []func()

	mu sync.Mutex
	on *hookWindow // the window for which the endpoints work now
}

// claimTracer keeps a claim that asks for endpoints of one kind.
type claimTracer struct {
	mu   sync.Mutex
	text string
}

func (c *claimTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "unnest") && strings.Contains(q.SQL, "due_at <=") && strings.Count(q.SQL, "unnest") == 1 && strings.Contains(q.SQL, "x.due") && strings.Contains(q.SQL, "limit 4") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.text = q.SQL
	}
	return ctx
}

func (*claimTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

const (
	hookSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // of the benchmark alone
	hookFillers = 10_000                                   // events of the waiting deliveries

	insertHookEndpoint = `insert into once_webhook_endpoint (id, uid, part, tenant, url, types, description, headers, secret, encrypted, ordered, rate, concurrency, disabled_by, created_at, version)
 values ($1::bigint, 'ep_' || $1::bigint, $1::bigint % 64, 'tenant ' || $1::bigint, $2, ' * ', '', '{}', $3, false, false, 0, 0, '', now(), 1)`
	insertHookFillers = `insert into once_webhook_event (uid, tenant, type, data, encrypted, created_at)
 select 'filler_' || i, 'filler', 'refund.succeeded', convert_to(repeat('x', 500), 'UTF8'), false, now() from generate_series(1, $1::int) i`
	fillHooks = `insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at)
 select e, v, e % 64, now() + $4::float8 * random() * interval '1 second' - interval '1 second', 0, '', now()
 from (select $1::bigint + i % $2::bigint as e, (select min(id) from once_webhook_event) + $5::bigint + i / $2::bigint as v from generate_series(0, $3::bigint - 1) i) x`
)

func (b *bench) openHookField(ctx context.Context) (*hookField, error) {
	guard := &ssrf.Guard{AllowHTTP: true, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	f := &hookField{server: b.server, databases: map[string]string{}, cfg: webhook.Config{PlainSecrets: true, Guard: guard}}
	for i := range hookEndpoints {
		port, err := f.listen(ctx, i)
		if err != nil {
			return f, err
		}
		f.ports = append(f.ports, port)
		guard.AllowPorts = append(guard.AllowPorts, uint16(port))
	}
	return f, nil
}

// open opens the database of a scenario. The first call makes it, with the waiting deliveries; a window leaves nearly all of them.
func (f *hookField) open(ctx context.Context, s hookScenario) (err error) {
	database, filled := f.databases[s.name]
	if !filled {
		if database, err = f.server.emptyDatabase(); err != nil {
			return err
		}
	}
	f.pool, err = f.server.pool(ctx, database, 24, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = &f.claim })
	if err != nil {
		return err
	}
	if filled {
		_, err = f.pool.Exec(ctx, "truncate once_webhook_attempt, once_webhook_state")
		return err
	}
	if err := pgxstore.Migrate(ctx, f.pool, webhook.Migrations); err != nil {
		return err
	}
	for i, port := range f.ports {
		if _, err := f.pool.Exec(ctx, insertHookEndpoint, i+1, fmt.Sprintf("http://127.0.0.1:%d/", port), []byte(hookSecret)); err != nil {
			return err
		}
	}
	f.databases[s.name] = database
	return f.fill(ctx, s)
}

func (f *hookField) close() {
	for _, stop := range slices.Backward(f.stops) {
		stop()
	}
}

// listen makes an endpoint.
func (f *hookField) listen(ctx context.Context, number int) (port int, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		on := f.on
		f.mu.Unlock()
		if on != nil {
			on.answer(w, r, number)
		}
	})}
	f.stops = append(f.stops, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	address, _ := l.Addr().(*net.TCPAddr)
	return address.Port, nil
}

// hookWindow is a scenario under way.
type hookWindow struct {
	hookScenario

	first      int           // first event: earlier ones are from windows before
	over       chan struct{} // ends hanging requests
	bigs       atomic.Int64
	mu         sync.Mutex
	committed  map[int]time.Time
	answered   map[int]time.Time
	unanswered sync.WaitGroup
}

// sick says which trouble an endpoint has: the last endpoints have some.
func (w *hookWindow) sick(number int) (hangs, fails bool) {
	place := (hookEndpoints - 1 - number) * 100 / hookEndpoints
	return place < w.hang, place >= w.hang && place < w.hang+w.fail
}

func (w *hookWindow) answer(rw http.ResponseWriter, r *http.Request, number int) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	hangs, fails := w.sick(number)
	switch {
	case hangs:
		select {
		case <-time.After(hookHangs):
		case <-w.over:
		case <-r.Context().Done():
		}
		rw.WriteHeader(http.StatusGatewayTimeout)
		return
	case fails:
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	sleep(r.Context(), hookWorks)
	if number == 0 && w.big > 0 {
		w.bigs.Add(1)
	}
	text, _, _ := strings.Cut(string(body), " ")
	if n, err := strconv.Atoi(text); err == nil && n >= w.first {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.answered[n].IsZero() {
			w.answered[n] = time.Now()
			w.unanswered.Done()
		}
	}
}

// run makes one window of a scenario.
func (f *hookField) run(ctx context.Context, s hookScenario, window time.Duration) (r hookRun, err error) {
	if err := f.open(ctx, s); err != nil {
		return r, err
	}
	defer f.pool.Close()
	w := &hookWindow{hookScenario: s, first: f.sent, over: make(chan struct{}), committed: map[int]time.Time{}, answered: map[int]time.Time{}}
	f.mu.Lock()
	f.on = w
	f.mu.Unlock()
	hooks := webhook.New[pgx.Tx](pgxstore.New(f.pool, pgxstore.Config{}), f.cfg)
	taken := make(chan struct{})
	began := sync.OnceFunc(func() { close(taken) })
	relay := hooks.Relay(webhook.RelayConfig{Observer: hookObserver(func(e webhook.RelayEvent) {
		if e.Type == webhook.EventTaken && e.Parts == 64 {
			began()
		}
	})})
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(run) }()
	defer func() {
		close(w.over)
		cancel()
		err = errors.Join(err, <-ended)
	}()
	select {
	case <-taken:
	case <-time.After(time.Minute):
		return r, errors.New("the relay takes no parts")
	}
	wake := relay.Wake
	if s.apart {
		wake = func() {}
	}
	if err := w.write(ctx, f.pool, hooks, wake, 3*time.Second/2, nil); err != nil { // the trouble begins
		return r, err
	}
	bigs, at := w.bigs.Load(), time.Now()
	var numbers []int
	if err := w.write(ctx, f.pool, hooks, wake, window, &numbers); err != nil {
		return r, err
	}
	f.sent += len(w.committed)
	r.big = float64(w.bigs.Load()-bigs) / time.Since(at).Seconds()
	w.result(&r, numbers)
	r.heap = heapInUse()
	r.load = load()
	r.buffers, err = f.buffers(ctx)
	return r, err
}

type hookObserver func(webhook.RelayEvent)

// Observe implements webhook.RelayObserver.
func (f hookObserver) Observe(_ context.Context, e webhook.RelayEvent) { f(e) }

// fill makes the waiting deliveries.
func (f *hookField) fill(ctx context.Context, s hookScenario) error {
	_, err := f.pool.Exec(ctx, insertHookFillers, max(hookFillers, s.big+s.later/hookEndpoints+1))
	add := func(first, endpoints, rows, seconds, after int) {
		if rows > 0 && err == nil {
			_, err = f.pool.Exec(ctx, fillHooks, first, max(1, endpoints), rows, float64(seconds), after)
		}
	}
	sick := hookEndpoints * (s.hang + s.fail) / 100
	add(hookEndpoints-sick+1, sick, s.waiting, 0, 0)
	add(1, 1, s.big, 0, 0)
	add(1, hookEndpoints, s.later, 24*3600, max(hookFillers, s.big+s.later/hookEndpoints+1)-s.later/hookEndpoints-1)
	for _, text := range []string{"vacuum analyze once_webhook_delivery", "vacuum analyze once_webhook_event"} {
		if err == nil {
			_, err = f.pool.Exec(ctx, text)
		}
	}
	return err
}

// write sends events at fixed moments.
func (w *hookWindow) write(ctx context.Context, pool *pgxpool.Pool, hooks *webhook.Hooks[pgx.Tx], wake func(), length time.Duration, numbers *[]int) error {
	if w.silent {
		sleep(ctx, length)
		return nil
	}
	const writers = 8
	first, n := w.first+len(w.committed), int(length.Seconds()*hookRate)
	start := time.Now()
	errs := make([]error, writers)
	filler := strings.Repeat("x", hookBody-10)
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for i := writer; i < n && errs[writer] == nil; i += writers {
				sleep(ctx, time.Until(start.Add(time.Duration(i)*time.Second/hookRate)))
				errs[writer] = w.send(ctx, pool, hooks, wake, first+i, filler, numbers)
			}
		})
	}
	writing.Wait()
	return errors.Join(errs...)
}

func (w *hookWindow) send(ctx context.Context, pool *pgxpool.Pool, hooks *webhook.Hooks[pgx.Tx], wake func(), n int, filler string, numbers *[]int) error {
	endpoint := 1 + rand.N(hookEndpoints-1) // the first one may be big
	hangs, fails := w.sick(endpoint)
	if !hangs && !fails {
		w.unanswered.Add(1)
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return hooks.Send(ctx, tx, webhook.Event{Tenant: fmt.Sprintf("tenant %d", endpoint+1), Type: "refund.succeeded", Data: fmt.Appendf(nil, "%d %s", n, filler)})
	})
	at := time.Now()
	wake()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed[n] = at
	if numbers != nil && !hangs && !fails {
		*numbers = append(*numbers, n)
	}
	return err
}

// result waits for a moment for missing events. An event without an answer counts with the time that it has waited.
func (w *hookWindow) result(r *hookRun, numbers []int) {
	answered := make(chan struct{})
	go func() { w.unanswered.Wait(); close(answered) }()
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var delays []time.Duration
	for _, n := range numbers {
		at := w.answered[n]
		if at.IsZero() {
			r.undelivered++
			at = time.Now()
		}
		delays = append(delays, max(0, at.Sub(w.committed[n])))
	}
	if len(delays) > 0 {
		slices.Sort(delays)
		r.p50, r.p99, r.longest = time.Duration(percentile(delays, 50)), time.Duration(percentile(delays, 99)), delays[len(delays)-1]
	}
}

var hookBuffersRead = regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)

// buffers returns how many pages are read by a claim for all endpoints.
func (f *hookField) buffers(ctx context.Context) (n int, err error) {
	f.claim.mu.Lock()
	text := f.claim.text
	f.claim.mu.Unlock()
	if text == "" {
		return 0, errors.New("no claim was seen")
	}
	var ids []string
	for i := range hookEndpoints {
		ids = append(ids, strconv.Itoa(i+1))
	}
	from := "{" + strings.Repeat("0,", len(ids)-1) + "0}" // of each endpoint the first delivery
	err = pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local plan_cache_mode = force_generic_plan"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "explain (analyze, buffers) "+text, "{"+strings.Join(ids, ",")+"}", from, from)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if m := hookBuffersRead.FindStringSubmatch(strings.Join(lines, "\n")); m != nil { // the first line belongs to the whole statement
			for _, s := range m[1:] {
				read, _ := strconv.Atoi(s)
				n += read
			}
		}
		return err
	})
	return n, err
}
