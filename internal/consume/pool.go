package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oncelib/once/inbox"
)

// Defaults of [Config].
const (
	DefaultConcurrency   = 8
	DefaultBatch         = 64
	DefaultPrefetch      = 512
	DefaultPrefetchBytes = 64 << 20
	DefaultDrain         = 30 * time.Second
	DefaultSlowAcquire   = 100 * time.Millisecond
)

// Capacity is a changing limit of batches that run at the same time, such as package limit/adaptive computes. The pool calls
// its methods while it holds a lock.
type Capacity interface {
	// Acquire takes a place if one is free. The function release returns the place. useful says that the batch has run to
	// its end, so that its duration can be measured.
	Acquire() (release func(useful bool), ok bool)

	// Limit returns how many places there are now.
	Limit() int
}

// Config configures a [Pool]. Zero values have defaults.
type Config struct {
	Concurrency   int // the largest number of batches that run at the same time
	Batch         int // the largest number of messages in one transaction
	Prefetch      int // the largest number of messages in memory; messages that are set apart do not count: see [Receipt]
	PrefetchBytes int // the largest size of these messages
	Capacity      Capacity
	SlowAcquire   time.Duration // a longer wait for a connection reduces the number of batches at the same time; negative: no wait reduces it
	Extend        time.Duration // how often [Receipt.Extend] is called; 0: never
	Hold          time.Duration // after this time in the pool a failed message goes back to the broker instead of waiting for its next attempt; 0: never
	Drain         time.Duration // how long handlers may run after ctx has ended
	Log           *slog.Logger

	// Paused returns how many partitions are not fetched, and the partition that has waited longest. nil: the broker has no
	// partitions.
	Paused func() (int, inbox.Waiting)
}

func (c Config) withDefaults() (Config, error) {
	for _, number := range []*int{&c.Concurrency, &c.Batch, &c.Prefetch, &c.PrefetchBytes} {
		if *number < 0 {
			return c, errors.New("the field Concurrency, Batch, Prefetch or PrefetchBytes is negative. Try: leave the field out")
		}
	}
	setDefault(&c.Concurrency, DefaultConcurrency)
	setDefault(&c.Batch, DefaultBatch)
	setDefault(&c.Prefetch, DefaultPrefetch)
	setDefault(&c.PrefetchBytes, DefaultPrefetchBytes)
	setDefault(&c.Drain, DefaultDrain)
	setDefault(&c.SlowAcquire, DefaultSlowAcquire)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, nil
}

func setDefault[N int | time.Duration](n *N, value N) {
	if *n == 0 {
		*n = value
	}
}

// Pool holds messages, and passes them to a sink.
type Pool struct {
	sink Sink
	cfg  Config

	mu          sync.Mutex
	work        sync.Cond // signals that a worker may be able to start something
	room        sync.Cond // signals that a message has left the pool, or that a worker has ended its batch
	backlog     backlog
	pressure    pressure
	held        map[*Delivery]struct{} // all messages in the pool
	bytes       int                    // the size of these messages
	aside       aside
	working     map[*work]struct{} // the batches of the workers
	busy        [classes]int       // the number of running batches of each class
	lastTrouble class              // the class of the last batch in trouble that has begun
	troubleAt   [classes]time.Time // when the next batch of a class may begin while healthy messages wait
	alarm       *time.Timer        // wakes a worker later
}

// New returns a pool.
func New(to Sink, cfg Config) (*Pool, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{sink: to, cfg: cfg, pressure: newPressure(cfg.Concurrency), held: map[*Delivery]struct{}{}, working: map[*work]struct{}{}}
	p.backlog.suspects, p.lastTrouble = suspects{}, hung
	p.backlog.lines = map[stream]*line{}
	p.work.L, p.room.L = &p.mu, &p.mu
	return p, nil
}

// Config returns the configuration with its defaults.
func (p *Pool) Config() Config { return p.cfg }

// Add puts messages into the pool. The messages of a key must be in their order. Add never waits: see [Pool.Room].
func (p *Pool) Add(list ...*Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, d := range list {
		p.backlog.join(d)
		if d.Message.Delivery > healthyDeliveries {
			d.class = failing
		}
		d.since = now
		apart := d.class != healthy || d.line.held || d.line.slow || p.backlog.suspects.has(d)
		if apart && p.givesBack(d) {
			// join may have made the line, which nothing uses now.
			p.backlog.offer(d.line)
			continue
		}
		p.held[d] = struct{}{}
		p.bytes += d.size()
		if apart {
			p.setApart(d)
		}
		p.backlog.add(d)
	}
	p.work.Broadcast()
}

// Room waits until the pool has room for messages of size bytes, and returns for how many. While the database refuses work,
// the pool has room for one message.
func (p *Pool) Room(ctx context.Context, size int) (int, error) {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.room.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		count, bytes := len(p.held)-p.aside.count, p.bytes-p.aside.bytes
		// Messages that are set apart do not count, because the messages of one failing key would fill the pool.
		n := min(p.cfg.Prefetch-count, (p.cfg.PrefetchBytes-bytes)/max(1, size))
		if count == 0 {
			n = max(1, n) // a message that is larger than the limit comes alone
		}
		if p.pressure.refusals > 0 {
			n = min(n, 1) // one message finds out whether the database works again
			if p.triesSoon() {
				n = 0
			}
		}
		if n > 0 {
			return n, nil
		}
		p.room.Wait()
	}
}

// triesSoon reports whether a message in the pool will soon find out whether the database accepts messages again.
func (p *Pool) triesSoon() bool {
	return len(p.working) > 0 || p.backlog.waiting > 0 || len(p.backlog.later) > 0 && time.Until(p.backlog.later[0].at) <= longestBackoff
}

// Drop removes messages from the pool, because another process will get them. It waits until no worker has one of them. Only
// the receipts of messages that a worker has are called.
func (p *Pool) Drop(ctx context.Context, is func(*Delivery) bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.room.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		inHand := false
		for d := range p.held {
			switch {
			case !is(d):
			case d.inHand:
				d.dropped, inHand = true, true
			default:
				d.dropped = true
				p.forget(d)
			}
		}
		if !inHand {
			return nil
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		p.room.Wait()
	}
}

// forget removes a message from the pool.
func (p *Pool) forget(d *Delivery) {
	if _, held := p.held[d]; !held {
		return
	}
	delete(p.held, d)
	p.bytes -= d.size()
	if d.apart {
		p.aside.count--
		p.aside.bytes -= d.size()
	}
	p.room.Broadcast()
}

// Run runs the sink and the workers until ctx ends. At the same time it runs take, which fills the pool until its own context
// ends. At the end, Run lets the workers finish their batches, and asks the broker to deliver the other messages again. Run
// returns the first error of take or of the sink.
func (p *Pool) Run(ctx context.Context, take func(ctx context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Handlers may finish after ctx has ended, so their context ends later.
	handlers, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)

	var beside, workers sync.WaitGroup
	errs := make([]error, 2)
	for i, run := range []func(context.Context) error{p.sink.Run, take} {
		beside.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				errs[i] = err
				stop(err)
			}
		})
	}
	for range p.cfg.Concurrency {
		workers.Go(func() {
			for p.handleNext(ctx, handlers) {
			}
		})
	}
	defer p.sink.Attach(p.Backlog)()
	var always sync.WaitGroup // these run until the last message has left the pool
	lasting, endAlways := context.WithCancel(handlers)
	for _, run := range []func(context.Context){p.extend, p.watch, p.tell} {
		always.Go(func() { run(lasting) })
	}

	<-ctx.Done()
	timer := time.AfterFunc(p.cfg.Drain, func() { abort(errDrained) })
	defer timer.Stop()
	p.end()
	workers.Wait()
	beside.Wait() // take may add a message after the end of ctx
	// take and the workers have ended, so no goroutine adds or takes a message any more.
	p.release()
	endAlways()
	always.Wait()
	return errors.Join(errs...)
}

var errDrained = errors.New("consume: the consumer is stopping, and the time limit Drain has passed")

// end wakes the workers after their context has ended.
func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work.Broadcast()
	if p.alarm != nil {
		p.alarm.Stop()
	}
}

// release asks the broker for another delivery of the messages that no worker has begun.
func (p *Pool) release() {
	for _, d := range p.all() {
		// The pool ends, so the message leaves it even if the broker cannot redeliver by request.
		d.Receipt.Again(0)
		p.mu.Lock()
		p.forget(d)
		p.mu.Unlock()
	}
}

func (p *Pool) all() []*Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*Delivery, 0, len(p.held))
	for d := range p.held {
		list = append(list, d)
	}
	return list
}

// extend tells the broker regularly that this process still has the messages of the pool.
func (p *Pool) extend(ctx context.Context) {
	if p.cfg.Extend <= 0 {
		return
	}
	ticker := time.NewTicker(p.cfg.Extend)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, d := range p.all() {
			d.Receipt.Extend()
		}
	}
}

// refuse makes a dead letter of a message that could not be decoded.
func (p *Pool) refuse(ctx context.Context, d *Delivery) inbox.Result {
	if err := p.sink.Refuse(ctx, d.Message, "malformed", d.Malformed); err != nil {
		return inbox.Result{Err: fmt.Errorf("consume: a message that cannot be decoded could not be stored as a dead letter: %w", err)}
	}
	return inbox.Result{Outcome: inbox.DeadLettered}
}
