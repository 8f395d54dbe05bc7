package once

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/store"
)

// Observer receives every decision and transition of an engine. The method Observe is called synchronously,
// must return quickly, and must not call the engine.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType names the kind of an event. New types may be added.
type EventType string

const (
	EventClaimed         EventType = "claimed"           // the handler is about to run; the claim was granted, or will be granted with the first statement of a first attempt or with the commit of a batch
	EventWaiting         EventType = "waiting"           // another call of the same operation is in flight, and this call waits for the end of the other call
	EventRerun           EventType = "rerun"             // after a serialization failure or a lost commit nothing was applied: the handler runs again
	EventInDoubt         EventType = "in_doubt"          // the answer to COMMIT was lost
	EventSettled         EventType = "settled"           // after EventInDoubt: the outcome of the COMMIT is known; if Err is nil, the COMMIT was applied
	EventEffectOutsideTx EventType = "effect_outside_tx" // a handler has succeeded without a statement on its transaction
	EventFinished        EventType = "finished"          // the last event of every call; Outcome is set
)

// Outcome is the result of a call for its caller: one of these constants, or the [Code] of the call's error.
type Outcome string

const (
	OutcomeExecuted Outcome = "executed"
	OutcomeReplayed Outcome = "replayed"
	OutcomeDeclined Outcome = "declined" // this call has stored a final answer that is a [Failure], or for which the handler's writes were rolled back

	// OutcomeNotStored means that the handler has given an answer that is not stored, such as HTTP 409 ("not
	// now") or HTTP 403 ("not you"). With OutcomeNotStored nothing was applied, a retry executes the handler,
	// and Do returns an error with [CodeFailed].
	OutcomeNotStored Outcome = "not_stored"
)

// Event is one step of a call. Event does not contain the key itself.
type Event struct {
	Type    EventType
	Outcome Outcome // set in EventFinished only
	Effect  Effect  // the effect that the outcome proves
	Err     error   // the cause, or nil: the error that Unwrap of the caller's *Error returns

	// Cached reports that a replay is from Config.Cache or Config.Shared. Cached is set in EventFinished
	// only.
	Cached bool

	// Deadlock reports that the database has ended the last run because of a deadlock. Deadlock is set in
	// EventRerun, and in EventFinished if no other run followed. Deadlock is false if the store cannot
	// detect deadlocks.
	Deadlock bool

	// From is the state in which this call has found the operation, and To the state in which it has left the operation, as strings of
	// [store.State]. If From or To is "", the state is not known. From and To are set in EventFinished only.
	From, To string

	Name        string // Operation.Name
	Scope       string
	KeyHash     string      // first 16 hex digits of SHA-256 of the key; "" for work without a key
	Fingerprint Fingerprint // Operation.Fingerprint
	Attempt     Attempt

	// TraceID is the id of the trace that this call belongs to. TraceID is taken from the traceparent that the [Tracer] of the call has
	// returned. If the Tracer has returned no traceparent, TraceID is taken from Attempt.Trace. If TraceID is "", the trace is not
	// known.
	TraceID string

	// Trace is the W3C traceparent that is stored with the operation. For a replay, Trace is the traceparent of
	// the call that executed the operation. If Trace is "", the trace is not known. Trace is set in
	// EventFinished and Tracer.TraceStart only.
	Trace string

	Runs     int           // how often the handler has run so far in this call
	Acquire  time.Duration // the time that the call waited for a connection of the pool
	LockWait time.Duration // the time that the call waited for locks of the database; on SQLite, the time until no other transaction wrote to the file
	LookUp   time.Duration // the time of the look-up of the operation, including all other statements that begin the transaction
	Waited   time.Duration // the time that the call waited for a duplicate in flight
	Handler  time.Duration // the duration of the last run of the handler
	Commit   time.Duration // the duration of the last commit
	Total    time.Duration // the time since the call began
}

// Cause returns a short name for Err: an SQLSTATE, an HTTP status such as "HTTP 503", or the kind of the
// store's error. Unlike the text of Err, the short name never contains data. If Err is an error of another
// kind, Cause returns "".
func (e Event) Cause() string {
	if e.Err == nil {
		return ""
	}
	var named interface{ Cause() string }
	if errors.As(e.Err, &named) {
		return named.Cause()
	}
	var state interface{ SQLState() string }
	if errors.As(e.Err, &state) {
		return state.SQLState()
	}
	if kind := store.KindOf(e.Err); kind != store.KindOther {
		return kind.String()
	}
	return ""
}

// KeyHash returns the hash of key. Events and logs contain the hash of a key instead of the key.
func KeyHash(key string) string { return keyname.Hash(key) }

// Tracer is an observer that starts a span, or something like a span, when a call begins, and ends the span
// when the call ends.
type Tracer interface {
	Observer

	// TraceStart is called when a call begins. The engine uses the returned context for the handler and for all
	// events of the call, the last of which is [EventFinished]. The event e names the operation: the fields
	// Name, Scope, KeyHash and Attempt of e are set, and the field Trace of e is Attempt.Trace. The returned
	// trace is a W3C traceparent, which is kept with the operation. If the returned trace is "", Attempt.Trace
	// is kept instead. A returned trace that is not a valid W3C traceparent is ignored.
	TraceStart(ctx context.Context, e Event) (_ context.Context, trace string)
}

// report collects the data for the last event of a call.
type report struct {
	from                    string          // the state of the operation, as the call has found it
	left                    ability.Witness // the transaction of the last run, if it knows the state in which it has left the operation
	trace                   string          // the trace that is stored with the operation
	keyHash                 string          // the hash of the key, if an event has needed it
	cached                  bool            // the record was found in Config.Cache or Config.Shared
	waits                   *waits.Waits    // the waits of its Begins; nil if the waits are not measured
	lookUp, handler, commit time.Duration
}

// Warnings is the default observer. Warnings writes warnings and errors to the logger that [slog.Default]
// returns at the time of the event.
var Warnings Observer = warnings{}

// Discard is an observer that ignores every event: nothing is logged.
var Discard Observer = discard{}

type discard struct{}

func (discard) Observe(context.Context, Event) {}

// measures reports whether the engine measures durations for the observer. It does not for the default
// observer, because each call would have to read the clock several times.
func (e *Engine[TX]) measures() bool { return e.cfg.Observer != nil && !e.alarms }

// shows reports whether the observer receives ev.
func (e *Engine[TX]) shows(ev Event) bool {
	return e.cfg.Observer != nil && (!e.alarms || levelOf(ev) >= slog.LevelWarn)
}

// clock returns the time, or zero if the observer receives no durations.
func (e *Engine[TX]) clock() (now time.Time) {
	if e.measures() {
		now = time.Now()
	}
	return now
}

// since returns the time since began, or 0 if the observer receives no durations.
func (e *Engine[TX]) since(began time.Time) (d time.Duration) {
	if e.measures() {
		d = time.Since(began)
	}
	return d
}

func (c *call[TX]) observe(ctx context.Context, t EventType, err error) {
	if e := (Event{Type: t, Err: err}); c.e.shows(e) {
		e.Deadlock = t == EventRerun && c.isDeadlock(err)
		c.send(ctx, e)
	}
}

// observeEnd reports the last event of the call.
func (c *call[TX]) observeEnd(ctx context.Context, v verdict) {
	e := Event{Type: EventFinished, Outcome: OutcomeExecuted, Effect: v.effect(), Err: v.err}
	switch {
	case v.err != nil:
		e.Outcome, e.Effect = Outcome(CodeOf(v.err)), EffectOf(v.err)
		var answer interface{ NotStored() bool } // an answer of a transport
		if e.Outcome == Outcome(CodeFailed) && errors.As(v.err, &answer) && answer.NotStored() {
			e.Outcome = OutcomeNotStored
		}
	case v.replayed:
		e.Outcome = OutcomeReplayed
	case v.rec.Result.Kind == store.ResultFailure, e.Effect == EffectNotApplied:
		e.Outcome = OutcomeDeclined
	}
	if !c.e.shows(e) {
		return
	}
	e.From, e.To, e.Trace = c.report.from, c.stateAfter(e, v), v.rec.Trace
	e.Cached = v.replayed && c.report.cached
	if e.Outcome == Outcome(CodeConflict) && c.e.currentFrame(ctx) == nil { // for a Join, the outer call reports the deadlock
		e.Deadlock = c.isDeadlock(v.err)
	}
	c.send(ctx, e)
}

// isDeadlock reports whether the store knows err as a deadlock of the database.
func (c *call[TX]) isDeadlock(err error) bool {
	d, ok := store.As[ability.DeadlockDetector](c.e.store)
	return ok && d.IsDeadlock(err)
}

// stateAfter returns the state in which the call has left its operation, or "" if that is not known.
func (c *call[TX]) stateAfter(e Event, v verdict) string {
	switch {
	case c.id.IsZero(), v.provisional: // the caller's transaction decides
		return ""
	case e.Effect == EffectApplied, v.err == nil:
		return store.StateDone.String()
	case c.report.left != nil && c.report.left.Left() != "":
		return c.report.left.Left()
	case e.Effect == EffectInDoubt && (e.Outcome != Outcome(CodeUnknown) || c.report.left != nil), store.KindOf(v.err) == store.KindTaken:
		return ""
	}
	return c.report.from
}

func (c *call[TX]) send(ctx context.Context, e Event) {
	if own, ok := e.Err.(*Error); ok { //nolint:errorlint // the engine's own, which names the key
		e.Err = own.Err
	}
	e = c.named(e)
	e.Runs, e.Handler, e.Commit = c.runs, c.report.handler, c.report.commit
	if w := c.report.waits; w != nil {
		e.Acquire, e.LockWait = w.Acquire, w.Lock
	}
	e.LookUp = max(0, c.report.lookUp-e.Acquire-e.LockWait)
	e.Waited, e.Total = c.waited, time.Since(c.start)
	c.e.cfg.Observer.Observe(ctx, e)
}

// named returns e with the fields that name the operation.
func (c *call[TX]) named(e Event) Event {
	e.Name, e.Scope, e.Fingerprint, e.Attempt, e.TraceID = c.op.Name, c.op.Scope, c.op.Fingerprint, c.op.Attempt, traceparent.TraceID(c.report.trace)
	if c.op.Key != "" && c.report.keyHash == "" {
		c.report.keyHash = KeyHash(c.op.Key)
	}
	e.KeyHash = c.report.keyHash
	return e
}

// observeEffectOutside reports a success of a handler that has not used its transaction. If that handler had an effect elsewhere, nothing
// prevents a second effect.
func (c *call[TX]) observeEffectOutside(ctx context.Context, txn transaction[TX], a Answer, writes int) {
	if c.e.cfg.Observer == nil || a.Result.Kind == store.ResultFailure || a.Result.Status >= 300 || writes > 0 {
		return
	}
	if n, ok := store.As[ability.Counter](txn.Transaction); ok && n.Statements() == 0 {
		c.observe(ctx, EventEffectOutsideTx, errOutside)
	}
}

var errOutside = errors.New("the handler succeeded without running a statement on its transaction: if the handler has written elsewhere, a rollback does not undo these writes, and a retry may repeat them. Try: write through the transaction that the handler receives")

// Observers returns an observer that passes every event to each observer of list, in order. The returned
// observer is a [Tracer] if at least one observer of list is a Tracer. Each Tracer of list gets the context
// that the previous Tracer of list has returned. With the operation, the engine stores the first non-empty
// trace that a Tracer of list returns.
func Observers(list ...Observer) Observer {
	if slices.ContainsFunc(list, func(o Observer) bool { _, is := o.(Tracer); return is }) {
		return tracers{list}
	}
	return observers(list)
}

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}

// tracers are observers of which at least one is a Tracer.
type tracers struct{ observers }

// TraceStart implements [Tracer].
func (o tracers) TraceStart(ctx context.Context, e Event) (_ context.Context, trace string) {
	for _, each := range o.observers {
		if t, is := each.(Tracer); is {
			var own string
			ctx, own = t.TraceStart(ctx, e) //nolint:fatcontext // a span each
			trace = cmp.Or(trace, own)
		}
	}
	return ctx, trace
}
