package once

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/store"
)

// Exec is [Do] below the codec, for transports: fn returns the result to store.
// It returns the record, which others may be reading, too: its bytes must not be
// changed; and whether it is that of an earlier call. An Operation
// with neither scope nor key runs fn in a plain transaction that keeps no record.
func (e *Engine[TX]) Exec(ctx context.Context, op Operation, fn func(context.Context, TX) (Answer, error)) (store.Record, bool, error) {
	c := e.call(op)
	v := c.exec(ctx, fn)
	c.finish(ctx, v)
	v.rec.Result = v.rec.Result.WithoutMark()
	return v.rec, v.replayed, v.err
}

// call is one caller's way through the engine.
type call[TX any] struct {
	e      *Engine[TX]
	op     Operation
	id     store.ID
	place  place // in Engine.recent
	start  time.Time
	event  learnt
	waited time.Duration
	runs   int
	joins  bool // the transaction is the caller's
	unsure bool // the transaction's ROLLBACK was not answered
	lost   bool // and the handler may have committed from below
	beaten bool // the claim was put off, and somebody else had it

	glanced bool
	spent   time.Duration // by glance, of the time for a connection
	ticket  ticket        // of the cache, from before the last COMMIT

	batch     bool // the handler declares its writes
	unclaimed bool // the transaction claims with its COMMIT
	doubt     bool // such a COMMIT was lost, and may yet come
	waits     bool // for it
}

func (e *Engine[TX]) call(op Operation) call[TX] {
	id := e.id(op)
	return call[TX]{e: e, op: op, id: id, place: e.recent.place(id), start: time.Now()}
}

// exec brings the call to its verdict, which is yet to be reported.
func (c *call[TX]) exec(ctx context.Context, fn func(context.Context, TX) (Answer, error)) verdict {
	if c.e.within(ctx) != nil {
		return verdict{err: c.fail(CodeMisuse, NotApplied, errNested)}
	}
	if c.op.isZero() {
		if err := c.op.bounds(); err != nil {
			return c.invalid(err)
		}
		return c.plain(ctx, fn)
	}
	if err := c.e.check(c.op); err != nil {
		return c.invalid(err)
	}
	if rec, ok := c.e.cache.get(c.id, c.start); ok {
		return c.found(rec)
	}
	until := c.start.Add(c.op.Wait)
	for began := c.start; ; began = time.Now() {
		fl, leads := c.e.flights.join(c.id)
		if leads {
			return c.lead(ctx, fl, began, until, fn)
		}
		rec, end, err := c.follow(ctx, fl, until)
		if err == nil && end == followAgain && !c.shares(fl.refused()) {
			continue
		}
		c.waited = time.Since(c.start)
		switch {
		case err != nil:
			return verdict{err: c.fail(CodeInFlight, NotApplied, err)}
		case end == followLearnt:
			return c.found(*rec)
		case end == followAgain:
			return verdict{err: c.fail(CodeUnavailable, NotApplied, fl.refusal.err)}
		case end == followSilent:
			return verdict{err: c.fail(CodeUnavailable, NotApplied, errNoAnswer)}
		case ctx.Err() != nil && !fl.runsNow():
			return verdict{err: c.fail(CodeUnavailable, NotApplied, ctx.Err())}
		}
		return c.found(store.Record{State: store.Running})
	}
}

var errNoAnswer = errors.New("another call of this process has asked for the same operation, and the store has not answered it in time. Try: whether the database is there")

// follow waits for the leader of a flight, if not too many do already. Whether the operation
// runs it waits for no longer than a call of its own would for the store: a look-up, a
// connection and an answer.
func (c *call[TX]) follow(ctx context.Context, fl *flight, until time.Time) (*store.Record, following, error) {
	if err := fl.all.enter(c.op.size()); err != nil {
		return nil, followRunning, err
	}
	defer fl.all.exit(c.op.size())
	t := c.op.Timeouts.Or(c.e.cfg.Timeouts)
	rec, end := fl.wait(ctx, until, c.start.Add(2*t.Acquire+t.Lock))
	return rec, end, nil
}

// verdict is how one try has ended.
type verdict struct {
	rec        store.Record
	replayed   bool
	err        error
	again      bool // nothing was applied, and another try may succeed
	superseded bool // rec is this caller's, and the operation has expired and been done again since
}

func (c *call[TX]) invalid(cause error) verdict {
	return verdict{err: c.fail(CodeInvalid, NotApplied, cause)}
}

func (c *call[TX]) fail(code Code, effect Effect, cause error) error {
	if c.doubt && effect == NotApplied {
		effect = InDoubt
	}
	err := &Error{Code: code, Effect: effect, Scope: c.op.Scope, Key: c.id.Key, Err: cause}
	switch code {
	case CodeInFlight, CodeUnavailable, CodeConflict:
		err.After = time.Second
	}
	return err
}

// maxCollisions bounds how often a call starts again because another one was
// faster. Each time somebody has made progress, so more than a few are not met.
const maxCollisions = 20

// firstDelay is the longest pause before the first try of the same again.
const firstDelay = 5 * time.Millisecond

// lead tries until there is a verdict to give, in a flight that it leads since began.
func (c *call[TX]) lead(ctx context.Context, fl *flight, began, until time.Time, fn func(context.Context, TX) (Answer, error)) (v verdict) {
	learnt := false
	defer func() { c.e.flights.leave(c.id, fl, v.rec, learnt) }() // also when fn panics
	delay := firstDelay
	for collisions := 0; ; began = time.Now() {
		v = c.try(ctx, fl, began, fn)
		until = c.patience(until)
		switch {
		case v.err == nil || CodeOf(v.err) == CodeMismatch || CodeOf(v.err) == CodeUnknown:
			if CodeOf(v.err) != CodeMismatch || v.rec.State != store.Running { // followers may want to wait for that
				learnt = !v.superseded
			}
			return v
		case ctx.Err() != nil:
			return v
		case store.KindOf(v.err) == store.Taken && v.again && collisions < maxCollisions:
			collisions++ // the winner has committed or is about to: the look-up will tell
		case v.again && c.runs < c.e.cfg.Runs:
			c.observe(ctx, EventRerun, v.err)
			if !sleep(ctx, rand.N(delay)) {
				return v
			}
		case CodeOf(v.err) == CodeInFlight && !v.again && time.Now().Before(until):
			if c.waited == 0 {
				c.observe(ctx, EventWaiting, nil)
			}
			fl.running()
			if ok, err := c.pause(ctx, min(time.Until(until), delay/2+rand.N(delay))); err != nil {
				v.err = c.fail(CodeInFlight, NotApplied, err)
				return v
			} else if !ok {
				return v
			}
			delay = min(2*delay, 200*time.Millisecond)
		default:
			switch CodeOf(v.err) { //nolint:exhaustive // the others tell followers nothing
			case CodeInFlight:
				fl.running()
			case CodeUnavailable:
				fl.refusal = c.refusal(ctx, began, v.err)
			}
			return v
		}
	}
}

// pause waits for a holder elsewhere, unless too many do. It reports whether ctx goes on.
func (c *call[TX]) pause(ctx context.Context, d time.Duration) (ok bool, err error) {
	if err := c.e.flights.enter(c.op.size()); err != nil {
		return false, err
	}
	defer c.e.flights.exit(c.op.size())
	began := time.Now()
	ok = sleep(ctx, d)
	c.waited += time.Since(began)
	return ok, nil
}

// refusal is what followers learn from err, which has ended a try that began then: nothing,
// if the handler has run, or if it may be the end of the leader's own context.
func (c *call[TX]) refusal(ctx context.Context, began time.Time, err error) refusal {
	r := refusal{timeouts: c.op.Timeouts.Or(c.e.cfg.Timeouts), isolation: c.op.Isolation}
	if deadline, ok := ctx.Deadline(); c.runs == 0 && (!ok || deadline.After(began.Add(r.timeouts.Acquire))) {
		r.err = errors.Unwrap(err)
	}
	return r
}

func (c *call[TX]) shares(r refusal) bool {
	return r.err != nil && r.timeouts == c.op.Timeouts.Or(c.e.cfg.Timeouts) && r.isolation == c.op.Isolation
}

// patience is until when a duplicate in flight is waited for: after a batch was lost, what is
// in flight may be what this call has sent.
func (c *call[TX]) patience(until time.Time) time.Time {
	if !c.doubt || c.waits {
		return until
	}
	c.waits = true
	if settled := time.Now().Add(c.e.cfg.Settle); until.Before(settled) {
		return settled
	}
	return until
}

// glance reads an operation that is probably done, because this process has seen it so
// or because the caller has asked before: a replay then takes no transaction. Where
// replays must be durable, only Begin knows how.
func (c *call[TX]) glance(ctx context.Context) (v verdict, done bool) {
	if c.glanced || c.e.cfg.Synced || c.id.IsZero() || c.op.Caller.Attempt < 2 && !c.place.has() {
		return v, false
	}
	c.glanced = true
	began := time.Now()
	rec, err := c.e.read(ctx, c.op, c.id)
	c.spent = time.Since(began)
	if err != nil || rec.State != store.Done {
		return v, false // also if the pool is exhausted: Begin says so
	}
	c.event.LockWait = time.Since(c.start)
	return c.found(rec), true
}

// timeouts are those of the next Begin. It has what the glance has left of the time for a
// connection, and always some: 0 would be no bound.
func (c *call[TX]) timeouts() store.Timeouts {
	t := c.op.Timeouts.Or(c.e.cfg.Timeouts)
	t.Acquire = max(t.Acquire-c.spent, min(t.Acquire, time.Millisecond))
	return t
}

// try, which begins now, asks the store once and executes if there is something to
// execute. Work without an operation has no flight.
func (c *call[TX]) try(ctx context.Context, fl *flight, now time.Time, fn func(context.Context, TX) (Answer, error)) verdict {
	c.event.From = ""
	if v, done := c.glance(ctx); done {
		return v
	}
	txn, rec, err := c.begin(ctx)
	c.spent = 0
	c.event.LockWait += c.since(now)
	switch {
	case err != nil:
		return c.refused(err)
	case txn == nil:
		return c.found(rec)
	}
	switch {
	case fl == nil:
	case c.unclaimed:
		fl.maybeRunning()
	default:
		if m, ok := store.As[store.Mortal](txn); ok {
			fl.mayBeLost(m.Ended())
		}
		fl.running()
	}
	return c.execute(ctx, txn, fn)
}

// refused turns the error of a Begin or Join into a verdict.
func (c *call[TX]) refused(err error) verdict {
	switch store.KindOf(err) {
	case store.Retry:
		c.runs++ // so that a store which always answers Retry ends too
		return verdict{err: c.fail(CodeConflict, NotApplied, err), again: true}
	case store.Aborted:
		return verdict{err: c.fail(CodeAborted, NotApplied, err)}
	case store.Misused, store.Ended:
		return verdict{err: c.fail(CodeMisuse, NotApplied, err)}
	case store.Stale:
		return verdict{err: c.fail(CodeStale, NotApplied, err)}
	}
	return verdict{err: c.fail(CodeUnavailable, NotApplied, err)}
}

func (c *call[TX]) execute(ctx context.Context, txn store.Txn[TX], fn func(context.Context, TX) (Answer, error)) verdict {
	c.runs++
	if !c.id.IsZero() && !c.unclaimed {
		c.event.From = store.Absent.String()
	}
	change, rollback, err := c.run(ctx, txn, fn)
	if err != nil {
		return c.failed(ctx, err)
	}
	tail := c.tail(ctx)
	defer tail.end()
	c.ticket = c.e.cache.ticket(c.id)
	began := c.clock()
	if rollback {
		switch err := txn.Rollback(tail); store.KindOf(err) {
		case store.Ended, store.Retry, store.Busy, store.Taken:
			return c.committed(ctx, change, err)
		}
		switch {
		case c.unclaimed && !c.op.FirstSent.IsZero(): // a Swap does not know what is too late
			var rec store.Record
			if txn, rec, err = c.begin(tail); err != nil {
				return c.refused(err)
			} else if txn == nil {
				return c.found(rec)
			}
		case !c.joins:
			c.unclaimed = false
			return c.swap(ctx, tail, change)
		}
	}
	err = txn.Commit(tail, change)
	c.event.Commit = c.since(began)
	if c.unclaimed && c.instead(ctx, err) {
		return verdict{err: c.fail(CodeConflict, NotApplied, &store.Error{Kind: store.Taken, Err: err}), again: true}
	}
	return c.committed(ctx, change, err)
}

// failed is the verdict after a run that has come to nothing.
func (c *call[TX]) failed(ctx context.Context, err error) verdict {
	if store.KindOf(err) == store.Ended {
		return verdict{err: c.fail(CodeMisuse, InDoubt, err)}
	}
	if c.beaten {
		c.beaten = false
		return c.committed(ctx, store.Change{}, err)
	}
	switch state, known := c.stands(ctx); {
	case !known && c.lost:
		return verdict{err: c.fail(CodeUnavailable, InDoubt, errors.Join(err, errMayHaveCommitted))}
	case state == store.Unknown && c.unsure:
		return verdict{err: c.fail(CodeMisuse, InDoubt, errors.Join(err, errCommitted))}
	case state == store.Done, state == store.Unknown: // somebody else's
		return verdict{err: c.fail(CodeConflict, NotApplied, &store.Error{Kind: store.Taken, Err: err}), again: true}
	}
	if v, is := c.waitsForJoin(err); is {
		return v
	}
	switch kind := c.e.classify(err); {
	case kind == store.Retry:
		return verdict{err: c.fail(CodeConflict, NotApplied, err), again: true}
	case kind == store.Busy, ctx.Err() != nil:
		return verdict{err: c.fail(CodeUnavailable, NotApplied, err)}
	}
	return verdict{err: c.fail(CodeFailed, NotApplied, err)}
}

// stands looks, after a handler has failed, at what there is. It is Done if somebody else
// was faster: Begin may have missed that (Operation.First, or a snapshot that is older than
// its claim), and then the handler has met its own effect. It is Unknown if the handler
// has committed from below, where a store can tell so; a ROLLBACK that was not answered
// has not. It is not known if the store cannot be asked.
func (c *call[TX]) stands(ctx context.Context) (state store.State, known bool) {
	if c.id.IsZero() || c.joins || ctx.Err() != nil && !c.unsure {
		return store.Absent, true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // it only betters an answer
	defer cancel()
	rec, err := c.e.store.Read(ctx, c.id)
	if err != nil {
		return store.Absent, false
	}
	return rec.State, true
}

var errMayHaveCommitted = errors.New("the handler has run a procedure or dynamic SQL, which may have committed, and the store cannot be asked. Try: the same key again")

var errCommitted = errors.New("the handler has committed, and its effect may stand. Try: no COMMIT in procedures and dynamic SQL that a handler runs")

// run runs fn on an open transaction and returns what is to be committed. If it
// does not get that far, the transaction is rolled back: on an error, on
// runtime.Goexit, and on a panic of anybody's code (fn, the sealer, the observer).
func (c *call[TX]) run(ctx context.Context, txn store.Txn[TX], fn func(context.Context, TX) (Answer, error)) (change store.Change, rollback bool, err error) {
	returned := false
	began := c.clock()
	defer func() {
		if returned && err == nil {
			return
		}
		v := verdict{err: c.fail(CodeFailed, NotApplied, errPanic)}
		switch end := c.end(ctx, txn); store.KindOf(end) {
		case store.Ended:
			v.err = c.fail(CodeMisuse, InDoubt, errors.Join(errPanic, end))
			err = errors.Join(end, err) // before whatever kind the handler's error has
		case store.Retry, store.Busy:
			err = errors.Join(end, err)
		case store.Taken:
			c.beaten, err = true, end // whatever the handler has made of that
		default:
			c.lost = store.KindOf(end) == store.Lost
			if c.unsure = end != nil; c.unsure && c.joins {
				err = errors.Join(err, end) // the caller's transaction is not usable
			}
		}
		if !returned {
			c.event.Handler = c.since(began)
			c.finish(ctx, v)
		}
	}()
	c.observe(ctx, EventClaimed, nil)
	tx := txn.Tx()
	within := &frame{Context: ctx, engine: c.e, tx: tx, id: c.id}
	if c.joins {
		within.outer, _ = ctx.Value(c.e).(*frame)
	}
	if c.batch {
		within.tx = new(Batch)
	}
	defer within.over.Store(true) // also if fn panics
	a, err := fn(within, tx)
	c.event.Handler = c.since(began)
	if err == nil {
		if a.Rollback {
			a.Result = a.Result.MarkRolledBack()
		}
		change = c.change(a.Result)
		change.Next.Request, err = c.seal()
	}
	if err == nil {
		err = fits(change.Next)
	}
	if !a.Rollback {
		change.Writes = a.writes
	}
	if err == nil && !a.Rollback {
		c.outside(ctx, txn, a)
	}
	returned = true
	return change, a.Rollback, err
}

var errPanic = errors.New("the handler panicked")

// end rolls back, cancelled or not.
func (c *call[TX]) end(ctx context.Context, txn store.Txn[TX]) error {
	tail := c.tail(ctx)
	defer tail.end()
	return txn.Rollback(tail)
}

// plain runs fn without an operation.
func (c *call[TX]) plain(ctx context.Context, fn func(context.Context, TX) (Answer, error)) verdict {
	for began := c.start; ; began = time.Now() {
		v := c.try(ctx, nil, began, fn)
		if !v.again || c.runs >= c.e.cfg.Runs || ctx.Err() != nil {
			return v
		}
		c.observe(ctx, EventRerun, v.err)
		if !sleep(ctx, rand.N(firstDelay)) {
			return v
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errNested = errors.New("an operation inside of the handler of another one of the same engine would wait for a second connection, and commit apart from it. Try: once.Join")

var errNoJoin = errors.New("this store cannot join a transaction of the caller")

func (c *call[TX]) joined(ctx context.Context, tx TX, fn func(context.Context, TX) (Answer, error)) verdict {
	if err := c.e.check(c.op); err != nil {
		return c.invalid(err)
	}
	for f := c.e.within(ctx); f != nil; f = f.outer {
		if f.id == c.id {
			return verdict{err: c.fail(CodeMisuse, NotApplied, errSame)}
		}
	}
	j, ok := store.As[store.Joiner[TX]](c.e.store)
	if !ok {
		return c.invalid(errNoJoin)
	}
	txn, rec, err := j.Join(ctx, tx, store.Ask{ID: c.id, Durable: c.e.cfg.Synced, Until: c.e.until(c.op)})
	switch {
	case err != nil:
		return c.refused(err)
	case txn == nil:
		return c.found(rec)
	}
	c.joins = true
	return c.execute(ctx, txn, fn)
}

func (e *Engine[TX]) classify(err error) store.Kind {
	if c, ok := store.As[store.Classifier](e.store); ok {
		return c.Classify(err)
	}
	return store.KindOf(err)
}

// read waits no longer for a connection than Begin would.
func (e *Engine[TX]) read(ctx context.Context, op Operation, id store.ID) (store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, op.Timeouts.Or(e.cfg.Timeouts).Acquire)
	defer cancel()
	return e.store.Read(ctx, id)
}
