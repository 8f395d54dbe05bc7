package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// Defaults of [Config].
const (
	defaultTTL          = 30 * time.Second
	defaultMaxDuration  = time.Hour
	defaultStepTimeout  = 30 * time.Second
	defaultAttempts     = 10
	defaultUndoAttempts = 20
	defaultBackoff      = time.Second
	defaultMaxBackoff   = time.Minute
	defaultConcurrency  = 16
	defaultEvery        = 500 * time.Millisecond
	defaultRetain       = 72 * time.Hour // the default of an engine
)

// Config configures a [Runner].
type Config struct {
	// TTL is how long the lease of a saga is valid after its last renewal. After the time TTL another node can
	// take the saga over. The node that runs the saga renews the lease whenever a third of TTL has passed. TTL
	// must be at least 100 ms. Default: 30 s.
	TTL time.Duration

	// MaxDuration is how long one node may run a saga without a break. Default 1 h.
	MaxDuration time.Duration

	// StepTimeout limits the time of one try of a step or an undo. Default 30 s.
	StepTimeout time.Duration

	// Attempts is how often a step is tried before the saga begins to undo its steps. UndoAttempts is how often
	// an undo is tried before the saga is stuck. Default: 10 for Attempts, 20 for UndoAttempts.
	Attempts, UndoAttempts int

	// Backoff is the pause after the first failed try. The pause doubles with each failed try, up to MaxBackoff.
	// Default: 1 s for Backoff, 1 min for MaxBackoff.
	Backoff, MaxBackoff time.Duration

	// Timeouts are the timeouts of the transactions of steps. After a COMMIT whose answer was lost, the next run
	// of a step may wait for rows that the transaction of the previous run still locks. Defaults: 5 s for a
	// connection and for a lock, StepTimeout for a statement and for the pause between two statements.
	Timeouts store.Timeouts

	// Encrypter, if it is set, encrypts the inputs and results of steps, the texts of failures, and the result
	// of the saga. All nodes need the same Encrypter: a node does not run a saga that it cannot decrypt, and
	// leaves this saga to other nodes.
	Encrypter once.Encrypter

	// KeepData keeps the inputs and results of steps after the end of a saga, for the time Retain. Default:
	// the inputs and results are deleted when the saga ends.
	KeepData bool

	// Retain is how long a saga is kept after its end. With [once.Forever] the saga is never deleted.
	// Default 72 h.
	Retain time.Duration

	// Concurrency is how many sagas this node runs at the same time in [Runner.Run]. Sagas of one tenant get at
	// most three quarters of Concurrency. If the runner has several definitions, sagas of one definition also
	// get at most three quarters of Concurrency. If a step has not returned one second after its timeout, the
	// saga of this step no longer counts as running; at most half as many sagas as Concurrency are left out of
	// the count for this reason. Default: 16.
	Concurrency int

	// Every is the time between two polls of the node for due sagas. Default 500 ms.
	Every time.Duration

	// Observer receives the events of the runner. Default: Log(nil).
	Observer Observer

	// Tracer makes a span of each run of a saga, and of each step, undo and check in the run. Default: no
	// tracer.
	Tracer Tracer
}

// or returns v, or otherwise if v is zero.
func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (c Config) withDefaults() Config {
	c.TTL, c.MaxDuration, c.StepTimeout = or(c.TTL, defaultTTL), or(c.MaxDuration, defaultMaxDuration), or(c.StepTimeout, defaultStepTimeout)
	c.Attempts, c.UndoAttempts = or(c.Attempts, defaultAttempts), or(c.UndoAttempts, defaultUndoAttempts)
	c.Backoff, c.MaxBackoff = or(c.Backoff, defaultBackoff), or(c.MaxBackoff, defaultMaxBackoff)
	c.Retain, c.Concurrency, c.Every = or(c.Retain, defaultRetain), or(c.Concurrency, defaultConcurrency), or(c.Every, defaultEvery)
	c.Observer = or(c.Observer, Log(nil))
	t := &c.Timeouts
	t.Acquire, t.Lock, t.Statement, t.Idle = or(t.Acquire, 5*time.Second), or(t.Lock, 5*time.Second), or(t.Statement, c.StepTimeout), or(t.Idle, c.StepTimeout)
	switch {
	case c.TTL < lease.ShortestTTL:
		panic(fmt.Sprintf("saga: NewRunner: Config.TTL is %v, and must be at least %v", c.TTL, lease.ShortestTTL))
	case min(c.MaxDuration, c.StepTimeout, c.Backoff, c.MaxBackoff, c.Retain, c.Every) < 0, min(c.Attempts, c.UndoAttempts, c.Concurrency) < 0:
		panic(fmt.Sprintf("saga: NewRunner: a setting of Config is negative: %+v", c))
	}
	return c
}

// node is a [Runner] without the type of its transactions.
type node struct {
	ops      store.Operations
	cfg      Config
	defs     map[string]*definition
	heart    *held.Heart
	due      due
	transact func(ctx context.Context, r *run, full string, fn func(ctx context.Context, tx any) (end, error)) error
	stopping atomic.Bool
	hanging  hanging
	counts   struct{ completed, compensated, stuck, taken, changed atomic.Int64 }
}

// Stats counts the events of a runner since the runner was made.
type Stats struct {
	Completed, Compensated, Stuck int64

	Taken   int64 // sagas that were taken over because they were due, or because their node has died
	Changed int64 // sagas that were taken over and that another version of their definition had begun
}

func (n *node) stats() Stats {
	c := &n.counts
	return Stats{c.completed.Load(), c.compensated.Load(), c.stuck.Load(), c.taken.Load(), c.changed.Load()}
}

// tell counts an event, and passes it to the observer.
func (n *node) tell(ctx context.Context, e Event) {
	switch e.Type { //nolint:exhaustive // the others are not counted
	case EventCompleted:
		n.counts.completed.Add(1)
	case EventCompensated:
		n.counts.compensated.Add(1)
	case EventStuck:
		n.counts.stuck.Add(1)
	case EventTaken:
		n.counts.taken.Add(1)
	case EventChanged:
		n.counts.changed.Add(1)
	}
	n.cfg.Observer.Observe(context.WithoutCancel(ctx), e)
}

func (n *node) isStopping() bool { return n.stopping.Load() }

// backoff returns the pause after a number of failed tries.
func (n *node) backoff(tries int) time.Duration {
	d := n.cfg.Backoff
	for range tries - 1 {
		if d >= n.cfg.MaxBackoff/2 {
			d = n.cfg.MaxBackoff
			break
		}
		d *= 2
	}
	// The pause is random, so that sagas that have failed together are not tried again together.
	return d - rand.N(d/4+1)
}

// begin returns the run of a new saga. It stores nothing, because the start is part of the first commit.
func (n *node) begin(ctx context.Context, d *definition, id store.ID, in json.RawMessage) *run {
	own := n.heart.NewOwner(id, held.Claim{Fingerprint: d.asked(in), Name: d.name, Trace: n.traceOf(ctx)}, n.cfg.Timeouts.Acquire)
	r := &run{n: n, def: d, id: id, own: own, saved: saved{Input: in}}
	if d.deadline > 0 {
		r.saved.Deadline = time.Now().Add(d.deadline).UTC()
	}
	return r
}

// takeOver makes this node the owner of a saga that waits, or whose owner has died. It returns errLost if another node was
// faster, or if this node cannot run the saga.
func (n *node) takeOver(ctx context.Context, id store.ID, rec store.Record) (*run, error) {
	d := n.defs[rec.Name]
	s, err := n.read(id, rec)
	switch {
	case err != nil:
		return nil, err
	case d == nil || !rec.Idle():
		return nil, errLost
	}
	own := n.heart.NewOwner(id, held.Claim{Trace: rec.Trace}, n.cfg.Timeouts.Acquire)
	next := store.Record{
		State: store.StateRunning, Fence: rec.Fence + 1, Nonce: own.Nonce, Data: rec.Data, RecoveryPoint: rec.RecoveryPoint, CallStarted: rec.CallStarted,
	}
	c := store.Change{
		ID: id, Next: next, Lease: n.cfg.TTL, KeepRequest: true, Writes: n.due.drop(id),
		Expect: store.Expect{Fence: rec.Fence, Nonce: rec.Nonce, LeaseExpired: rec.State == store.StateRunning},
	}
	switch err := own.Swap(ctx, c); {
	case store.KindOf(err) == store.KindTaken:
		// The lease is not renewed for a record that this node does not have.
		own.Close()
		return nil, errLost
	case err != nil:
		own.Close()
		return nil, err //nolint:wrapcheck // it is of the store
	}
	return n.taken(ctx, id, d, own, s), nil
}

// taken returns the run of a saga that this node has taken over.
func (n *node) taken(ctx context.Context, id store.ID, d *definition, own *held.Owner, s saved) *run {
	r := &run{n: n, def: d, id: id, own: own, saved: s, turned: s.Turn != nil, holds: true}
	r.tell(ctx, Event{Type: EventTaken})
	if s.Definition != d.print {
		r.tell(ctx, Event{Type: EventChanged, Was: s.Definition, Is: d.print})
	}
	return r
}

// takeMany makes this node the owner of those sagas among ids that wait, in one transaction if the store supports this. It returns
// the work for each saga. The other sagas are left for the next look.
func (n *node) takeMany(ctx context.Context, ids []store.ID) (runs map[store.ID]func(context.Context) error, can bool, err error) {
	taker, can := store.As[upkeep.Taker](n.ops)
	if !can || len(ids) == 0 {
		return nil, can, nil
	}
	nonce := held.NewNonce()
	entries, err := taker.Take(ctx, ids, nonce, n.cfg.TTL, n.due.drained())
	if err != nil {
		return nil, true, err //nolint:wrapcheck // it is of the store
	}
	runs = map[store.ID]func(context.Context) error{}
	for _, e := range entries {
		own := n.heart.NewOwner(e.ID, held.Claim{Trace: e.Trace}, n.cfg.Timeouts.Acquire)
		// One statement has taken all entries, so they share one nonce.
		own.Nonce = nonce
		own.Adopt(e.Record)
		s, bad := n.read(e.ID, e.Record)
		if d := n.defs[e.Name]; d != nil && bad == nil {
			// Only now it is known that this node has the definition and can decrypt the saga.
			r := n.taken(ctx, e.ID, d, own, s)
			r.background = true
			runs[e.ID] = r.execute
			continue
		}
		runs[e.ID] = func(ctx context.Context) error { // concurrently, because it may wait for a transaction that wakes the saga
			err := n.leave(ctx, own, e)
			n.tell(ctx, Event{Type: EventLeft, Saga: e.Name, ID: idOf(e.ID), Err: errors.Join(bad, err)})
			return err
		}
	}
	return runs, true, nil
}

// read decodes and decrypts the record of a saga.
func (n *node) read(id store.ID, rec store.Record) (saved, error) {
	s, err := decodeSaved(rec)
	if err == nil {
		s, err = s.open(n.cfg.Encrypter, id)
	}
	return s, err
}

// leave makes a saga wait for another node, because this node has taken it but cannot run it.
func (n *node) leave(ctx context.Context, own *held.Owner, e upkeep.Entry) error {
	defer own.Close()
	next := store.Record{State: store.StateWaiting, Nonce: own.Nonce, Data: e.Data, RecoveryPoint: e.RecoveryPoint, CallStarted: e.CallStarted}
	return own.Swap(ctx, own.Under(store.Change{ID: e.ID, Next: next, Writes: n.due.wait(e.ID, e.Name, n.cfg.MaxBackoff)})) //nolint:wrapcheck // it is of the store
}

func failureResult(f once.Failure) (store.Result, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return store.Result{}, fmt.Errorf("the failure %s cannot be stored: %w", f.Code, err)
	}
	return store.Result{Kind: store.ResultFailure, Body: b}, nil
}
