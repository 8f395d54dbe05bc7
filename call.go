package once

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/internal/engine/flight"
	"github.com/oncelib/once/internal/engine/replay"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/store"
)

func (e *Engine[TX]) exec(ctx context.Context, op *Operation, h handler[TX]) (store.Record, bool, error) {
	var c call[TX]
	ctx = c.begin(ctx, e, op)
	v := c.exec(ctx, h)
	c.finish(ctx, v)
	return v.rec, v.replayed, v.err
}

// call is the state of one caller's operation while the engine works on it.
type call[TX any] struct {
	e       *Engine[TX]
	op      Operation
	id      store.ID
	request []byte // op.Request, encrypted; nil before the first use, or if it is not kept
	start   time.Time
	waited  time.Duration // how long the call has waited for a duplicate in flight
	runs    int           // runs of the handler, and tries after which the store has asked for another try
	report  report

	seen      replay.Mark   // set when this process has seen the operation done
	ticket    replay.Ticket // the ticket of the cache from before the last COMMIT
	sent      time.Time     // when that COMMIT was sent, if its result is to be shared; zero: the answer was lost
	lookUp    lookUp
	lostClaim lostClaim
}

// handler is the work of a call; exactly one of its functions is set. It is not a field of call, because that
// would put it, and everything that it refers to, on the heap.
type handler[TX any] struct {
	inTx  func(context.Context, TX) (Answer, error)
	batch func(context.Context, *Batch) (Answer, error) // declares its writes
}

// lookUp records the reads of a call before Begin. Each is made at most once.
type lookUp struct {
	done   bool
	shared bool          // Config.Shared was asked
	took   time.Duration // how much of the time for a connection the reads have used; the next Begin gets the rest
}

// lostClaim is the state of an earlier try of this call whose commit also claims the operation (see
// [store.CommitClaimer]), if the answer to that commit was lost.
type lostClaim uint8

const (
	claimNotLost   lostClaim = iota // no answer was lost, or the outcome of that commit is known
	claimMayArrive                  // the commit may still reach the server
	claimAwaited                    // as claimMayArrive; the call also waits longer for an operation in flight, which may be its own commit
)

// begin initializes c. The rest of the call must use the returned context, because a [Tracer] may have replaced
// it.
func (c *call[TX]) begin(ctx context.Context, e *Engine[TX], op *Operation) context.Context {
	c.e, c.op, c.id, c.start = e, *op, e.id(op.Scope, op.Key), time.Now()
	c.seen = e.recent.Mark(c.id)
	c.report.trace = op.Attempt.Trace
	if e.measures() {
		c.report.waits = new(waits.Waits)
	}
	if e.tracer != nil {
		began, trace := e.tracer.TraceStart(ctx, c.named(Event{Trace: op.Attempt.Trace}))
		if len(trace) > traceparent.Max || !printable.Is(trace) { // a record with this trace could not be stored
			trace = ""
		}
		ctx, c.report.trace = began, cmp.Or(trace, op.Attempt.Trace)
	}
	return ctx
}

// maxCollisions bounds how often a call starts again because another call was faster. Each time another call
// has made progress, so a call does not collide more than a few times in practice.
const maxCollisions = 20

// firstDelay is the longest pause before the first repetition of a try.
const firstDelay = 5 * time.Millisecond

// exec executes the operation and returns the verdict, which the caller must still report.
func (c *call[TX]) exec(ctx context.Context, h handler[TX]) verdict {
	if c.e.currentFrame(ctx) != nil {
		return verdict{err: c.fail(CodeMisuse, EffectNotApplied, errNested)}
	}
	if c.op.isZero() {
		if err := c.op.bounds(); err != nil {
			return c.invalid(err)
		}
		return c.execWithoutKey(ctx, h)
	}
	if err := c.e.check(&c.op); err != nil {
		return c.invalid(err)
	}
	if err := owner.Check(ctx, c.op.Scope); err != nil {
		return c.invalid(err)
	}
	if rec, ok := c.e.cache.Get(c.id, c.start); ok {
		c.report.cached = true
		return c.found(rec)
	}
	until := c.start.Add(c.op.Wait)
	for began := c.start; ; began = time.Now() {
		f, leads := c.e.flights.Join(c.id)
		if leads {
			return c.lead(ctx, f, began, until, h)
		}
		if v, ok := c.follow(ctx, f, until); ok {
			return v
		}
	}
}

var errNested = errors.New("this call runs inside the handler of another operation of the same engine. It would need a second connection, and would commit separately. Try: once.Join")

// follow waits for the leader of a flight. ok is false if the caller must join a flight again. The caller waits no longer for the news that
// the operation runs than it would wait for the store itself: for a look-up, a connection and an answer.
func (c *call[TX]) follow(ctx context.Context, f *flight.Flight, until time.Time) (v verdict, ok bool) {
	t := c.terms()
	rec, end, err := f.Wait(ctx, flight.Patience{
		Bytes: c.op.size(), Result: until, Answer: c.start.Add(2*t.Timeouts.Acquire + t.Timeouts.Lock), Terms: t,
	})
	if end == flight.EndAgain {
		return v, false
	}
	c.waited = time.Since(c.start)
	switch end {
	case flight.EndFull:
		return verdict{err: c.fail(CodeInFlight, EffectNotApplied, err)}, true
	case flight.EndLearnt:
		c.report.cached = f.Cached()
		return c.found(*rec), true
	case flight.EndRefused, flight.EndCanceled:
		return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, err)}, true
	case flight.EndUnknown:
		return verdict{err: c.fail(CodeUnavailable, EffectNotApplied, errNoAnswer)}, true
	}
	if c.e.irrevocable { // the claim is a record with the fingerprint to compare
		if rec, err := c.e.read(ctx, &c.op, c.id); err == nil && rec.State != store.StateAbsent {
			return c.found(rec), true
		}
	}
	return c.found(store.Record{State: store.StateRunning}), true
}

var errNoAnswer = errors.New("another call in this process is reading the same operation, and the store has not answered in time. Try: check that the database is running and reachable")

// lead repeats try until there is a verdict. The call has been the leader of the flight f since began.
func (c *call[TX]) lead(ctx context.Context, f *flight.Flight, began, until time.Time, h handler[TX]) (v verdict) {
	final := false
	defer func() { f.End(c.id, v.rec, final) }() // even if h panics
	delay := firstDelay
	for collisions := 0; ; began = time.Now() {
		v = c.try(ctx, f, began, h)
		until = c.waitLimit(until)
		code := CodeOf(v.err)
		switch {
		case v.err == nil, code == CodeUnknown:
			final = !v.superseded // a superseded record is not the current one, so followers must ask for themselves
			return v
		case code == CodeMismatch:
			final = v.rec.State != store.StateRunning && v.rec.State != store.StateWaiting // followers may want to wait until the running operation ends
			return v
		// Only this caller has gone. The flight ends without a record, so that a follower leads the next try.
		case ctx.Err() != nil:
			return v
		case store.KindOf(v.err) == store.KindTaken && v.again && collisions < maxCollisions:
			collisions++ // the winner has committed or is about to, so the next look-up finds its record
		case v.again && c.runs < c.e.cfg.Runs:
			// A random pause, because two calls that have met in a deadlock would meet again.
			if !sleep.For(ctx, rand.N(delay)) {
				return v
			}
			c.observe(ctx, EventRerun, v.err)
		case code == CodeInFlight && !v.again && time.Now().Before(until):
			if c.waited == 0 {
				c.observe(ctx, EventWaiting, nil)
			}
			f.SetRunning()
			// A store cannot notify this process when the operation ends elsewhere, so the leader polls, for
			// all followers.
			pauseBegan := time.Now()
			ok, err := c.e.flights.Pause(ctx, c.op.size(), min(time.Until(until), delay/2+rand.N(delay)))
			if err != nil {
				v.err = c.fail(CodeInFlight, EffectNotApplied, err)
				return v
			}
			if c.waited += time.Since(pauseBegan); !ok {
				return v
			}
			// The pause grows: many look-ups would not end a long handler earlier.
			delay = min(2*delay, 200*time.Millisecond)
		case code == CodeInFlight:
			f.SetRunning()
			return v
		case code == CodeUnavailable && c.refusedForAll(ctx, began):
			f.Refuse(errors.Unwrap(v.err), c.terms())
			return v
		default:
			return v
		}
	}
}

// waitLimit returns until when this call waits for a duplicate in flight. After the answer to a claiming commit was lost, that is at least
// Config.Settle from now: the operation in flight may be the call's own commit.
func (c *call[TX]) waitLimit(until time.Time) time.Time {
	if c.lostClaim != claimMayArrive {
		return until
	}
	c.lostClaim = claimAwaited
	if settled := time.Now().Add(c.e.cfg.Settle); until.Before(settled) {
		return settled
	}
	return until
}

// refusedForAll reports whether the store would also have refused the followers, if they had begun a try at the same time. It is false if the
// handler has run, or if the leader's own context may have ended the try.
func (c *call[TX]) refusedForAll(ctx context.Context, began time.Time) bool {
	deadline, ok := ctx.Deadline()
	return c.runs == 0 && (!ok || deadline.After(began.Add(c.terms().Timeouts.Acquire)))
}

// terms returns what this call demands of the store.
func (c *call[TX]) terms() flight.Terms {
	return flight.Terms{Timeouts: c.e.timeouts(&c.op), Isolation: c.op.Isolation}
}

// try asks the store once, and executes the operation if it is absent. The try begins at now. Work without an operation
// has no flight.
func (c *call[TX]) try(ctx context.Context, f *flight.Flight, now time.Time, h handler[TX]) verdict {
	c.report.from, c.report.left = "", nil
	if v, done := c.askShared(ctx, f); done {
		return v
	}
	if v, done := c.readFirst(ctx); done {
		return v
	}
	txn, rec, err := c.claim(ctx, f, h.batch != nil)
	// This Begin has paid for the look-up, so a later Begin has the whole time for a connection again.
	c.lookUp.took = 0
	c.report.lookUp += c.e.since(now)
	switch {
	case err != nil:
		return c.beginFailed(err)
	case txn.Transaction == nil:
		return c.found(rec)
	}
	switch {
	case f == nil:
	case txn.blind:
		f.SetMaybeRunning()
	case txn.optimistic: // an optimistic claim reports that itself, with its first statement
	default:
		if txn.expiring != nil {
			f.SetLost(txn.expiring.Ended())
		}
		f.SetRunning()
	}
	if c.e.irrevocable { // work that calls other services must be finished, even if its caller has gone
		ctx = context.WithoutCancel(ctx)
	}
	return c.execute(ctx, txn, h)
}

// askShared looks the operation up in Config.Shared, on behalf of the whole flight.
func (c *call[TX]) askShared(ctx context.Context, f *flight.Flight) (v verdict, done bool) {
	// Once in a call, because each request may take sharedTimeout. A first attempt is in no cache.
	if c.e.shared == nil || c.lookUp.shared || c.id.IsZero() || c.op.Attempt.Number == 1 {
		return v, false
	}
	c.lookUp.shared = true
	began := c.e.clock()
	rec, ok := c.e.shared.get(ctx, c.id)
	c.report.lookUp += c.e.since(began)
	if !ok {
		return v, false
	}
	f.SetCached()
	c.report.cached = true
	return c.found(rec), true
}

// readFirst reads an operation that is probably done: this process has seen it done, or the caller has asked before. Then a replay needs
// no transaction. With Config.Synced it does not read, because only Begin can wait until a record is durable.
func (c *call[TX]) readFirst(ctx context.Context) (v verdict, done bool) {
	if c.lookUp.done || c.e.cfg.Synced || c.id.IsZero() || c.op.Attempt.Number < 2 && !c.seen.IsSet() {
		return v, false
	}
	c.lookUp.done = true
	began := time.Now()
	rec, err := c.e.read(waits.With(ctx, c.report.waits), &c.op, c.id)
	c.lookUp.took = time.Since(began)
	if err != nil || rec.State != store.StateDone {
		return v, false // also if the pool is exhausted: Begin then returns that error
	}
	c.report.lookUp = c.lookUp.took
	return c.found(rec), true
}

// read reads a record. It waits for a connection no longer than Begin would.
func (e *Engine[TX]) read(ctx context.Context, op *Operation, id store.ID) (store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeouts(op).Acquire)
	defer cancel()
	return e.store.Read(ctx, id)
}

// transaction is a transaction of the store, with the abilities of its claim.
type transaction[TX any] struct {
	store.Transaction[TX]                  // nil if there is nothing to execute
	expiring              ability.Expiring // nil if the store does not end the transaction by itself
	byCommit              bool             // only its Commit claims the operation
	blind                 bool             // Begin has not looked the operation up
	optimistic            bool             // claim and look-up are sent with the handler's first statement
	joined                bool             // a part of the caller's transaction: the caller decides whether it commits
}

func transactionOf[TX any](txn store.Transaction[TX]) transaction[TX] {
	cl := transaction[TX]{Transaction: txn}
	if x, ok := store.As[ability.Expiring](txn); ok && x.Ended() != nil {
		cl.expiring = x
	}
	if x, ok := store.As[store.CommitClaimer](txn); ok {
		cl.byCommit = x.ClaimsByCommit()
	}
	return cl
}

// claim asks the store for a transaction. The first try of a batch sends no request of its own: if the
// operation is done or in flight, the batch fails when it is sent, and the next try finds the record. An
// optimistic claim fails in the same way at the handler's first statement.
func (c *call[TX]) claim(ctx context.Context, f *flight.Flight, batch bool) (transaction[TX], store.Record, error) {
	opts := store.BeginOptions{
		ID: c.id, Isolation: c.op.Isolation, Timeouts: c.timeouts(),
		Durable: c.e.cfg.Synced, First: c.isFirst(), StaleAfter: c.e.tooLateFrom(&c.op),
		Batch: batch && c.runs == 0, Waits: c.report.waits,
	}
	if c.e.irrevocable {
		if err := c.describe(&opts); err != nil {
			return transaction[TX]{}, store.Record{}, err
		}
	}
	if c.isOptimistic(&opts) {
		opts.Optimistic = f.SetRunning
	}
	txn, rec, err := c.e.store.Begin(ctx, opts)
	if opts.First && err == nil && txn == nil && rec.State == store.StateRunning {
		// Another call has the claim, but the operation may be done: even a call that finds an operation done holds the
		// claim for a moment.
		opts.First = false
		txn, rec, err = c.e.store.Begin(ctx, opts)
	}
	if err != nil || txn == nil {
		return transaction[TX]{}, rec, err
	}
	cl := transactionOf(txn)
	cl.blind = opts.Batch && cl.byCommit
	if opts.Optimistic != nil {
		o, ok := store.As[ability.Optimist](txn)
		cl.optimistic = ok && o.IsOptimistic()
	}
	return cl, rec, nil
}

// describe adds the details of the operation, for a store whose claim is a record.
func (c *call[TX]) describe(opts *store.BeginOptions) (err error) {
	opts.Trace, opts.Name, opts.Retain = c.report.trace, c.op.Name, c.e.retain(&c.op)
	opts.Encrypter = c.e.cfg.Encrypter
	if !c.op.Fingerprint.isZero() {
		opts.Fingerprint = bytes.Clone(c.op.Fingerprint[:])
	}
	opts.Request, err = c.encryptedRequest()
	return err
}

// isFirst reports whether the store may skip the look-up.
func (c *call[TX]) isFirst() bool {
	// After a run or a wait, another call may have done the operation meanwhile.
	return c.op.Attempt.Number == 1 && !c.id.IsZero() && c.runs == 0 && c.waited == 0
}

// youngKey is the age up to which a key with a time probably belongs to a first attempt: clients wait for a second or more before
// they retry.
const youngKey = 2 * time.Second

// isOptimistic reports whether the store may look the operation up together with the handler's first statement.
func (c *call[TX]) isOptimistic(opts *store.BeginOptions) bool {
	if !c.op.Optimistic || c.id.IsZero() || c.e.irrevocable || opts.First || opts.Batch || c.runs > 0 || c.waited > 0 {
		return false
	}
	// Attempt.Number and StaleAfter need a look-up before the claim, and at SERIALIZABLE the look-up is sent
	// before BEGIN.
	if c.op.Attempt.Number != 0 || c.lookUp.done || !opts.StaleAfter.IsZero() || c.op.Isolation == store.Serializable {
		return false
	}
	made, known := keyname.Time(c.op.Key)
	return !known || c.start.Sub(made) <= youngKey
}

// timeouts returns the bounds of the next Begin. The look-up has used up a part of the time for a connection.
// The rest must not be 0, because 0 would mean no bound.
func (c *call[TX]) timeouts() store.Timeouts {
	t := c.e.timeouts(&c.op)
	t.Acquire = max(t.Acquire-c.lookUp.took, min(t.Acquire, time.Millisecond))
	return t
}

// execWithoutKey runs h without an operation.
func (c *call[TX]) execWithoutKey(ctx context.Context, h handler[TX]) verdict {
	for began := c.start; ; began = time.Now() {
		v := c.try(ctx, nil, began, h)
		if !v.again || c.runs >= c.e.cfg.Runs || ctx.Err() != nil {
			return v
		}
		if !sleep.For(ctx, rand.N(firstDelay)) {
			return v
		}
		c.observe(ctx, EventRerun, v.err)
	}
}

// finish ends the call. It remembers the result for later calls, and reports the last event.
func (c *call[TX]) finish(ctx context.Context, v verdict) {
	if v.err == nil && !c.id.IsZero() && !v.provisional {
		c.seen.Set()
		// A record that was only read may be lost in a failover to a standby, so only own commits are cached.
		if !v.replayed && !v.superseded {
			c.e.cache.Put(c.id, v.rec, c.e.retain(&c.op), c.ticket)
			if c.e.shared != nil && !c.sent.IsZero() {
				c.e.shared.put(c.id, v.rec, c.e.retain(&c.op), c.sent)
			}
		}
	}
	if c.e.cfg.Observer != nil {
		c.observeEnd(ctx, v)
	}
	if c.e.cfg.AfterCommit != nil && v.err == nil && !v.replayed && !v.provisional {
		c.e.cfg.AfterCommit()
	}
}
