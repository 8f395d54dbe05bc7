package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// RelayConfig configures a [Relay]. The zero value is ready to use.
type RelayConfig struct {
	// Schedule is the pause after the first failure of a delivery, the pause after the second failure, and so on.
	// Each pause is shortened at random by up to a tenth. If the attempt after the last pause fails, the delivery
	// stops until a person calls [Endpoints.Resend] or [Endpoints.Recover]. If an answer has a Retry-After that
	// is longer than the pause, the relay pauses as long as Retry-After says, for at most one day. The pause of
	// Retry-After replaces the next pauses of the schedule, until the sum of the replaced pauses is as long as
	// the pause of Retry-After. So all pauses of a delivery together are never longer than the sum of all pauses
	// in Schedule. Default: 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h.
	Schedule []time.Duration

	// Timeout limits the time of one attempt. Default: 15 s.
	Timeout time.Duration

	// Concurrency is how many deliveries to one endpoint this process may have in flight at the same time, if
	// [Endpoint].Concurrency is 0. For each endpoint, the relay begins with a limit of one delivery in flight.
	// Each success of an endpoint increases the limit of the endpoint by one, up to Concurrency, and each failure
	// of the endpoint halves the limit. Default: 4; the maximum is 128.
	Concurrency int

	// DisableAfter is how long an endpoint can fail, without one success, before it is disabled. If DisableAfter
	// is negative, no endpoint is disabled because of its failures. Default: 5 days.
	DisableAfter time.Duration

	// MaxBytes limits the size of the data of all deliveries in flight. The data of deliveries that take longer
	// than a second may fill one half of MaxBytes, and the data of all other deliveries may fill the other half.
	// Default: 128 MB.
	MaxBytes int64

	// If this process dies, other processes take over its endpoints when TTL has passed. Processes may have
	// different TTLs. Default: 10 s.
	TTL time.Duration

	// Node names this process in the tables. Default: host name, process id and random letters.
	Node string

	// Observer receives the events of the relay, for logs and metrics: see [LogRelay] and [RelayMetrics].
	// Default: [LogRelay] with slog.Default().
	Observer RelayObserver

	// Tracer makes a span of each request. The type onceotel.Telemetry implements Tracer. Default:
	// no tracer.
	Tracer Tracer
}

// Relay delivers webhooks to endpoints, each endpoint independently. Pass the method Wake of the Relay to
// [once.Config].AfterCommit, so that a commit that has sent an event wakes the relay.
type Relay struct {
	db     sqlplane.Database
	hooks  *Config
	cfg    RelayConfig
	client *http.Client
	sent   *atomic.Bool // this process has sent an event since the last look

	holder   holder
	boarding sync.Mutex // guards the pointer board, because Gauges may be called while Run begins
	board    *board
	settlers [lanes]*settler
	locked   *settler // writes the outcomes of deliveries whose rows other transactions have locked
	sending  sync.WaitGroup
	stater   *stater
	woken    chan struct{}
	running  atomic.Bool
}

// holder is [hold.Holder].
type holder interface {
	Run(ctx context.Context, changed func()) error
	Use(parts []int) (held []hold.Part, done func())
}

const (
	holdTable     = "once_webhook_hold"
	holdWork      = "webhook"
	statementTime = 30 * time.Second // limits the time of one statement, in case the server stops answering
)

// allParts are the numbers of all parts.
var allParts = func() (numbers []int) {
	for n := range parts {
		numbers = append(numbers, n)
	}
	return numbers
}()

// Relay returns a relay that delivers webhooks.
func (h *Hooks[TX]) Relay(cfg RelayConfig) *Relay {
	if len(cfg.Schedule) == 0 {
		cfg.Schedule = defaultSchedule
	}
	cfg.Timeout = cmp.Or(max(0, cfg.Timeout), 15*time.Second)
	cfg.Concurrency = cmp.Or(max(0, cfg.Concurrency), 4)
	// A negative value stays as it is, because it means never.
	cfg.DisableAfter = cmp.Or(cfg.DisableAfter, 5*24*time.Hour)
	cfg.MaxBytes = cmp.Or(max(0, cfg.MaxBytes), 128<<20)
	cfg.TTL = cmp.Or(max(0, cfg.TTL), 10*time.Second)
	if cfg.Node == "" {
		host, _ := os.Hostname()
		cfg.Node = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if cfg.Observer == nil {
		cfg.Observer = LogRelay(nil)
	}
	r := &Relay{db: h.db, hooks: &h.cfg, cfg: cfg, client: h.cfg.Guard.Client(), sent: h.sent, board: newBoard(cfg.MaxBytes / 2), woken: make(chan struct{}, 1)}
	// The timeout is part of the context of an attempt. So the relay can distinguish a timeout from the end of
	// Run.
	r.client.Timeout = 0
	r.holder = hold.New(h.db, hold.Config{Table: holdTable, Work: holdWork, Parts: parts, TTL: cfg.TTL, Node: cfg.Node, Failed: func(err error) {
		cfg.Observer.Observe(context.Background(), RelayEvent{Type: EventDatabase, Err: err})
	}})
	return r
}

// Run delivers webhooks until ctx ends. When ctx has ended, Run waits for the deliveries in flight, but not
// longer than RelayConfig.TTL, then releases the endpoints of this process to other processes, and returns nil.
// While the database cannot be reached, Run reports the errors to the observer and waits. Run returns an error
// only if the relay cannot work at all, for example if another Run of the same relay is active.
func (r *Relay) Run(ctx context.Context) error {
	// Two runs would share the board and the settlers of this relay.
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("webhook: this relay is already running. Try: call Run once, or make another Relay")
	}
	defer r.running.Store(false)
	if err := r.check(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	holding, letGo := context.WithCancel(context.WithoutCancel(ctx)) // the parts stay held while the last deliveries end
	defer letGo()
	// The board of an earlier Run may have deliveries that have not ended.
	r.boarding.Lock()
	r.board = newBoard(r.cfg.MaxBytes / 2)
	r.boarding.Unlock()
	changed := make(chan struct{}, 1)
	var held, working, settling, locked, stating sync.WaitGroup
	var failed error
	held.Go(func() {
		if err := r.holder.Run(holding, func() { notify(changed) }); holding.Err() == nil { // the holder has ended by itself
			failed = err
		}
		// Without its parts the relay must not deliver.
		stop()
	})
	r.stater = newStater(r)
	stating.Go(func() { r.stater.run(ctx) })
	r.locked = newSettler(r)
	locked.Go(func() { r.locked.runLocked(ctx) })
	for lane := range r.settlers {
		s := newSettler(r)
		r.settlers[lane] = s
		for range settlersOfLane {
			settling.Go(func() { s.run(ctx) })
		}
	}
	working.Go(func() { (&claimer{relay: r}).run(ctx) })
	working.Go(func() { (&lister{relay: r}).run(ctx, changed) })
	working.Go(func() { (&lister{relay: r}).reopen(ctx) })
	working.Go(func() { (&hinter{relay: r}).run(ctx, changed) })
	working.Go(func() { (&finder{relay: r}).run(ctx) })
	working.Go(func() { r.keepHouse(ctx) })
	working.Wait()
	// The order matters: deliveries end, then their outcomes are written, and only then the parts are released.
	r.sending.Wait()
	for _, s := range r.settlers {
		s.end()
	}
	settling.Wait()
	r.locked.end()
	locked.Wait()
	r.stater.end()
	stating.Wait()
	letGo()
	held.Wait()
	// Run may never be called again, and the idle connections would stay open.
	r.client.CloseIdleConnections()
	switch {
	case errors.Is(failed, store.ErrNotMigrated): // the tables were deleted after the check
		return notMigrated(failed)
	case failed != nil:
		return fmt.Errorf("webhook: the relay cannot hold its parts of the deliveries: %w. Try: call Run again", failed)
	}
	return nil
}

// check waits until the database can be reached, and returns an error if the tables are missing.
func (r *Relay) check(ctx context.Context) error {
	tables := store.Statement{SQL: "select 1 from once_webhook_endpoint, once_webhook_event, once_webhook_delivery, once_webhook_attempt, once_webhook_state, once_webhook_hold where 1 = 0"}
	for failures := 1; ; failures++ {
		err := r.query(ctx, tables, func(sqlplane.Row) error { return nil })
		switch {
		case err == nil || ctx.Err() != nil:
			return nil //nolint:nilerr // Run was ended
		case errors.Is(err, store.ErrNotMigrated):
			return notMigrated(err)
		}
		r.databaseFailed(ctx, err, failures)
	}
}

// notMigrated returns the error of Run. The error of the store ends with the migrations that are missing.
func notMigrated(err error) error {
	return fmt.Errorf("webhook: the relay cannot read its tables: %w", err)
}

// Wake makes the relay look for deliveries immediately, if this process has sent an event since the last call
// of Wake. Set once.Config.AfterCommit to the method Wake.
func (r *Relay) Wake() {
	if r.sent.Load() {
		// The flag is cleared before the look. An event that is sent during the look then wakes the relay
		// again.
		r.sent.Store(false)
		notify(r.woken)
	}
}

// text returns a statement in the dialect of the database.
func (r *Relay) text(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(r.db.Dialect(), query), Args: args}
}

// query runs a statement that reads.
func (r *Relay) query(ctx context.Context, s store.Statement, each func(sqlplane.Row) error) error {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	return r.db.Pool().Query(ctx, s, each)
}

// exec runs a statement that writes.
func (r *Relay) exec(ctx context.Context, s store.Statement) error {
	_, err := r.changed(ctx, s)
	return err
}

// changed runs a statement that writes, and returns the number of changed rows.
func (r *Relay) changed(ctx context.Context, s store.Statement) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	return r.db.Pool().Exec(ctx, s)
}

// write calls fn until fn succeeds. fn must limit the time of its statements, and must have the same effect
// when it runs again. After the end of Run, fn may be tried for one TTL.
func (r *Relay) write(ended context.Context, fn func(context.Context) error) error {
	var until time.Time
	for failures := 1; ; failures++ {
		// The end of Run must not cancel the write: the requests were already made.
		err := fn(context.WithoutCancel(ended))
		if err == nil {
			return nil
		}
		if ended.Err() != nil {
			if until.IsZero() {
				until = time.Now().Add(r.cfg.TTL)
			}
			// After one TTL another process may hold the part, and the statement would change nothing.
			if time.Now().After(until) {
				return err
			}
		}
		r.databaseFailed(context.WithoutCancel(ended), err, failures)
	}
}

// databaseFailed tells the observer about the error, and waits.
func (r *Relay) databaseFailed(ctx context.Context, err error, failures int) {
	if store.KindOf(err) != store.KindRetry { // a deadlock is normal
		r.tell(ctx, RelayEvent{Type: EventDatabase, Err: err})
	}
	sleep.For(ctx, min(500*time.Millisecond, 10*time.Millisecond<<min(failures-1, 10)))
}

// tell calls the observer.
func (r *Relay) tell(ctx context.Context, e RelayEvent) {
	r.cfg.Observer.Observe(context.WithoutCancel(ctx), e)
}
