package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/aged"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// RelayConfig configures a [Relay]. The zero value is ready to use.
type RelayConfig struct {
	// Batch is the maximum number of messages in one call of Publish. Default: 1000.
	Batch int

	// Concurrency is how many calls of Publish this process makes at the same time for one topic. Default: 4.
	Concurrency int

	// Topics maps the name of a topic to the limits of this topic.
	Topics map[string]TopicConfig

	// Policy says when the relay tries a failed message again, and when the relay tries it no more. Policy.Total
	// is measured from the first failure of the message. If Policy has a Budget (a limit of the number of
	// retries), each retry of the relay counts towards the Budget. Default: pauses from 1 s to 5 min with
	// full jitter, and no limit of attempts.
	Policy *retry.Policy

	// DeadLetters stores every failed delivery, and a dead letter for a message that gets no further attempt:
	// see package deadletter. A message that gets no further attempt stays in the outbox, and blocks the
	// later messages of its key until a person decides. The database needs deadletter.Migrations.
	DeadLetters bool

	// Breaker stops deliveries while the destination fails. Default: nil, no breaker.
	Breaker retry.Breaker

	// Timeout limits the time of one call of Publish. Default: 30 s.
	Timeout time.Duration

	// If this process dies, other processes take over its deliveries after the time TTL. Processes may have
	// different TTLs. Default: 10 s.
	TTL time.Duration

	// Node names this process in the tables. Default: host name, process id and random letters.
	Node string

	// Observer receives the events of the relay. Default: [Log] with slog.Default(), which writes failures.
	Observer Observer

	// Tracer makes a span of each call of Publish. The type onceotel.Telemetry implements Tracer.
	// Default: no tracer.
	Tracer Tracer
}

// TopicConfig limits the deliveries of one topic by this process.
type TopicConfig struct {
	Rate        float64 // messages per second; 0 means no limit
	Concurrency int     // concurrent calls of Publish; 0 means RelayConfig.Concurrency
}

// Relay delivers the messages of an outbox. Set [once.Config].AfterCommit to the method Wake of the relay, so
// that a commit with messages wakes the relay.
type Relay struct {
	db        sqlplane.Database
	publisher Publisher
	cfg       RelayConfig
	keep      time.Duration  // delivered messages
	archive   aged.Archive   // of delivered messages; nil if none is set
	encrypter once.Encrypter // of payloads and headers
	added     *atomic.Int64  // when this process added the last message, by elapsed; 0 before the first

	holder     holder
	node       string // its name for the holder
	board      *board
	finishers  [classes]*finisher
	locked     *finisher // for topics whose rows other transactions have locked
	publishing sync.WaitGroup
	wokenFor   atomic.Int64  // the value of added at the last Wake
	wokenAt    atomic.Int64  // when that was
	woken      chan struct{} // a message was added
	scanNow    chan struct{} // parts were taken
	running    atomic.Bool
	end        context.CancelCauseFunc // ends Run: see Closed
}

// holder is [hold.Holder].
type holder interface {
	Run(ctx context.Context, changed func()) error
	Use(parts []int) (held []hold.Part, done func())
}

// workName is the kind of work of the outbox in the tables of held parts.
const workName = "outbox"

// allParts are the numbers of all parts.
var allParts = func() (numbers []int) {
	for n := range parts {
		numbers = append(numbers, n)
	}
	return numbers
}()

// Relay returns a relay that delivers messages with p.
func (b *Box[TX]) Relay(p Publisher, cfg RelayConfig) *Relay {
	r := newRelay(b.db, p, cfg)
	r.keep, r.archive, r.encrypter, r.added = b.cfg.RetainDelivered, b.cfg.Archive, b.cfg.Encrypter, b.added
	return r
}

func newRelay(db sqlplane.Database, p Publisher, cfg RelayConfig) *Relay {
	cfg.Batch = cmp.Or(max(0, cfg.Batch), 1000)
	cfg.Concurrency = cmp.Or(max(0, cfg.Concurrency), queuesOfTopic)
	cfg.Timeout = cmp.Or(max(0, cfg.Timeout), 30*time.Second)
	cfg.TTL = cmp.Or(max(0, cfg.TTL), 10*time.Second)
	if cfg.Node == "" {
		host, _ := os.Hostname()
		cfg.Node = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), once.NewKey()[24:])
	}
	if cfg.Observer == nil {
		cfg.Observer = Log(nil)
	}
	policy := retry.Policy{Attempts: math.MaxInt, Base: time.Second, Cap: 5 * time.Minute, Total: -1}
	if cfg.Policy != nil {
		policy = *cfg.Policy
	}
	if policy.Budget == nil { // the budget of the process is for calls that a client waits for
		policy.Budget = &retry.Budget{Burst: -1}
	}
	cfg.Policy = &policy
	r := &Relay{
		db: db, publisher: p, cfg: cfg, added: new(atomic.Int64), board: newBoard(&cfg), woken: make(chan struct{}, 1), scanNow: make(chan struct{}, 1),
	}
	h := hold.New(db, hold.Config{Work: workName, Parts: parts, TTL: cfg.TTL, Node: cfg.Node, Failed: func(err error) {
		cfg.Observer.Observe(context.Background(), Event{Type: EventDatabase, Err: err})
	}})
	r.holder, r.node = h, h.Node()
	for c := range r.finishers {
		r.finishers[c] = newFinisher(r)
	}
	r.locked = newFinisher(r)
	return r
}

// Run delivers messages until ctx ends. When ctx has ended, Run waits for the deliveries in flight, and releases
// its share of the outbox so that other processes can deliver the remaining messages. When Run has released its
// share, Run returns nil. While the database cannot be reached, Run reports the errors to the observer and
// waits. If Run returns an error, the relay cannot work at all, or the publisher has returned an error made by
// [Closed].
func (r *Relay) Run(ctx context.Context) error {
	// Two runs would share the board and the finishers of this relay.
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("outbox: this relay is already running. Try: call Run once, or make another Relay")
	}
	defer r.running.Store(false)
	// Without the tables no retry would help, so the service learns of it at once.
	if err := r.check(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.end = stop
	holding, letGo := context.WithCancel(context.WithoutCancel(ctx)) // parts are renewed while deliveries end
	defer letGo()
	changed := make(chan struct{}, 1)
	var held, working, noting, locked sync.WaitGroup
	var failed error
	r.board = newBoard(&r.cfg)
	giveUp := make(chan struct{}, 1)
	held.Go(func() {
		if err := r.holdParts(holding, changed, giveUp); holding.Err() == nil { // it has ended by itself
			failed = err
		}
		stop(nil)
	})
	for c, s := range r.finishers {
		claimer := &claimer{relay: r, class: class(c), limit: readAhead * r.cfg.Batch}
		working.Go(func() { claimer.run(ctx) })
		s.ended = false
		for range finishing {
			noting.Go(func() { s.run(ctx) })
		}
	}
	r.locked.ended = false
	locked.Go(func() { r.locked.run(ctx) })
	working.Go(func() { (&finder{relay: r}).run(ctx) })
	working.Go(func() { r.scan(ctx) })
	working.Go(func() { r.keepHouse(ctx, changed) })
	working.Go(func() { r.sweep(ctx) })
	working.Go(func() { r.writeWaits(ctx) })
	working.Go(func() { r.yield(ctx, func() { notify(giveUp) }) })
	working.Wait()
	r.publishing.Wait()
	for _, s := range r.finishers {
		s.end()
	}
	// In this order: deliveries end, then they are written down, and only then the parts are released.
	noting.Wait()
	r.locked.end()
	locked.Wait()
	letGo()
	held.Wait()
	switch {
	case errors.Is(failed, store.ErrNotMigrated): // since check has seen them
		return notMigrated(failed)
	case failed != nil:
		return fmt.Errorf("outbox: the relay cannot hold its parts of the outbox: %w. Try: call Run again", failed)
	}
	return closedCause(ctx)
}

// holdParts holds parts until ctx ends. On giveUp it releases them, and takes parts again after a while.
func (r *Relay) holdParts(ctx context.Context, changed, giveUp chan struct{}) error {
	for {
		holding, letGo := context.WithCancel(ctx)
		given := make(chan struct{})
		go func() {
			defer close(given)
			select {
			case <-giveUp:
				letGo()
			case <-holding.Done():
			}
		}()
		err := r.holder.Run(holding, func() {
			notify(changed)
			notify(r.woken)
		})
		ended := holding.Err() == nil
		letGo()
		<-given
		// Otherwise giveUp has ended the hold, and the relay takes parts again later.
		if ended || ctx.Err() != nil {
			return err
		}
		// After the break the relay may try its destinations again.
		r.board.noteTry(true)
		sleep.For(ctx, awayTTLs*r.cfg.TTL)
	}
}

// check waits until the database can be reached, and returns an error if the tables are missing.
func (r *Relay) check(ctx context.Context) error {
	tables := store.Statement{SQL: "select 1 from once_outbox, once_outbox_failed, once_outbox_paused, once_outbox_wait, once_hold where 1 = 0"}
	if r.cfg.DeadLetters {
		tables.SQL = "select 1 from once_outbox, once_outbox_failed, once_outbox_paused, once_outbox_wait, once_hold, once_deadletter, once_deadletter_attempt where 1 = 0"
	}
	for failures := 1; ; failures++ {
		err := r.try(ctx, func(ctx context.Context) error {
			return r.db.Pool().Query(ctx, tables, func(sqlplane.Row) error { return nil })
		})
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
func notMigrated(err error) error { return fmt.Errorf("outbox: the relay cannot work: %w", err) }

// statementTime bounds one statement, in case the server stops answering.
const statementTime = 30 * time.Second

// try runs fn with a bound on its time.
func (r *Relay) try(ctx context.Context, fn func(context.Context) error) error {
	return within(ctx, statementTime, fn)
}

func within(ctx context.Context, most time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return fn(ctx)
}

// databaseFailed tells the observer and waits.
func (r *Relay) databaseFailed(ctx context.Context, err error, failures int) {
	if store.KindOf(err) != store.KindRetry { // a deadlock is normal
		r.tell(ctx, Event{Type: EventDatabase, Err: err})
	}
	sleep.For(ctx, backoff(10*time.Millisecond, 500*time.Millisecond, failures))
}

// AfterCommit does not say which transaction has committed: other commits can come between Add and its own commit.
const (
	wakeFor   = 10 * time.Second      // after the last Add, each commit may be its own
	wakeAgain = 10 * time.Millisecond // between two looks after the same Add: a look finds all earlier commits, and most commits are of other transactions
)

// Wake makes the relay look for messages immediately. Wake has an effect only if this process has added messages
// in the last ten seconds. Set once.Config.AfterCommit to the method Wake.
func (r *Relay) Wake() {
	added, now := r.added.Load(), elapsed()
	switch {
	case added == 0 || now-added > int64(wakeFor):
		return
	case added == r.wokenFor.Load() && now-r.wokenAt.Load() < int64(wakeAgain):
		return // the relay has just looked, and looks again soon
	}
	r.wokenFor.Store(added)
	r.wokenAt.Store(now)
	notify(r.woken)
}

var processBegan = time.Now()

// elapsed is a clock that is never set: nanoseconds since this process began.
func elapsed() int64 { return int64(time.Since(processBegan)) | 1 } // 0 means never

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tell calls the observer.
func (r *Relay) tell(ctx context.Context, e Event) {
	e.Message.Payload = nil
	r.cfg.Observer.Observe(context.WithoutCancel(ctx), e)
}

// keepHouse reports to the observer which parts are held. The process that holds part 0 also reports the
// backlog, and deletes old dead letters.
func (r *Relay) keepHouse(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	// -1, so that the first event is sent even if this process gets no parts.
	told := -1
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			held, done := r.holder.Use(allParts)
			done()
			if len(held) != told {
				told = len(held)
				r.tell(ctx, Event{Type: EventTaken, Parts: told})
			}
			continue
		case <-tick.C:
		}
		held, done := r.holder.Use(allParts[:1])
		done()
		// A count of the backlog reads many rows, so only the process with part 0 counts.
		if len(held) == 0 {
			continue
		}
		err := r.try(ctx, func(ctx context.Context) error {
			b, err := readBacklog(ctx, r.db, mostCounted)
			if err == nil {
				r.tell(ctx, Event{Type: EventBacklog, Backlog: b})
			}
			if err == nil && r.cfg.DeadLetters {
				err = letter.Sweep(ctx, r.db, letter.Retain, sweepBatch)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			r.tell(ctx, Event{Type: EventDatabase, Err: err})
		}
	}
}

// backoff is a pause that doubles from least to most.
func backoff(least, most time.Duration, failures int) time.Duration {
	// 30, because a larger shift would overflow.
	if n := min(failures-1, 30); least<<n < most {
		return least << n
	}
	return most
}
