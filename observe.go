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

// Observer sees every decision and transition. Observe is called synchronously
// and must be quick; it must not call the engine.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// EventType names the kind of an event. The set may grow.
type EventType string

const (
	EventClaimed         EventType = "claimed"           // the claim was granted, or will be with the first statement of a first attempt or the commit of a batch, and the handler is about to run
	EventWaiting         EventType = "waiting"           // a duplicate is in flight elsewhere; this call waits for it
	EventRerun           EventType = "rerun"             // serialization failure or lost commit, nothing applied: the handler runs again
	EventInDoubt         EventType = "in_doubt"          // the answer to COMMIT was lost
	EventSettled         EventType = "settled"           // the outcome of that COMMIT is known; Err nil: it was applied
	EventEffectOutsideTx EventType = "effect_outside_tx" // a successful handler has run no statement on its transaction
	EventFinished        EventType = "finished"          // the last event of every call; Outcome is set
)

// Outcome is the result of a call for its caller: one of these constants, or the [Code] of its error.
type Outcome string

const (
	OutcomeExecuted Outcome = "executed"
	OutcomeReplayed Outcome = "replayed"
	OutcomeDeclined Outcome = "declined" // a final answer, stored by this call, that is a [Failure] or for which the handler's writes were rolled back

	// OutcomeNotStored is that the handler has answered, with a "not now" or "not you" such as
	// HTTP 409, which is not stored: nothing was applied, and a retry executes. Do returns
	// [CodeFailed].
	OutcomeNotStored Outcome = "not_stored"
)

// Event is one step in one call. It does not contain the key itself.
type Event struct {
	Type    EventType
	Outcome Outcome // EventFinished only
	Effect  Effect  // the effect that the outcome proves
	Err     error   // the cause, or nil: the error that Unwrap of the caller's *Error returns

	// Cached is that a replay came from Config.Cache or Config.Shared. EventFinished only.
	Cached bool

	// Deadlock says that the database has ended the last run because of a deadlock. EventRerun, and
	// EventFinished if no other run followed. False where the store cannot detect it.
	Deadlock bool

	// From and To are the operation's state as this call has found and left it, in the
	// words of [store.State]; "" means not known. EventFinished only.
	From, To string

	Name        string // Operation.Name
	Scope       string
	KeyHash     string      // first 16 hex digits of SHA-256 of the key; "" for work without a key
	Fingerprint Fingerprint // Operation.Fingerprint
	Attempt     Attempt

	// TraceID is the id of the trace that this call belongs to: of the traceparent that its [Tracer] has
	// returned, else of Attempt.Trace. "" is not known.
	TraceID string

	// Trace is the W3C traceparent that is stored with the operation. For a replay it is the traceparent of
	// the call that executed the operation. "" means not known. It is set in EventFinished and Tracer.TraceStart only.
	Trace string

	Runs     int           // how often the handler has run so far in this call
	Acquire  time.Duration // waiting for a connection of the pool
	LockWait time.Duration // waiting for the database's locks; on SQLite, for the turn to write
	LookUp   time.Duration // looking the operation up, with the other statements that begin its transaction
	Waited   time.Duration // waiting for a duplicate in flight
	Handler  time.Duration // the last run of the handler
	Commit   time.Duration // the last commit
	Total    time.Duration // since the call began
}

// Cause names Err without its text, which may say anything: an SQLSTATE, an HTTP status such as "HTTP 503",
// or the kind of the store's error. It is "" for any other error.
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

// KeyHash is how events name a key.
func KeyHash(key string) string { return keyname.Hash(key) }

// Tracer is an observer that starts a span, or something like a span, when a call begins, and ends it when the call ends.
type Tracer interface {
	Observer

	// TraceStart is called when a call begins. The context that it returns is that of the handler
	// and of all events of the call, the last of which is [EventFinished]. The event names the operation: Name,
	// Scope, KeyHash, Attempt, and the trace of that as its Trace. The string that it returns as trace, a W3C
	// traceparent, is kept with the operation; "" means Attempt.Trace. A string that is no valid
	// Attempt.Trace is ignored.
	TraceStart(ctx context.Context, e Event) (_ context.Context, trace string)
}

// report collects the data for the last event of a call.
type report struct {
	from                    string       // the operation's state, as the call has found it
	trace                   string       // that is kept with it
	keyHash                 string       // of the key, when an event has asked for it
	cached                  bool         // the record that it has found is from Config.Cache or Config.Shared
	waits                   *waits.Waits // of its Begins; nil if they are not measured
	lookUp, handler, commit time.Duration
}

// Warnings is the default observer: warnings and errors go to the logger that [slog.Default] returns at that moment.
var Warnings Observer = warnings{}

// Discard is an observer that ignores every event: nothing is logged.
var Discard Observer = discard{}

type discard struct{}

func (discard) Observe(context.Context, Event) {}

// measures reports whether the observer receives durations. The default one does
// not: each call would have to read the clock several times.
func (e *Engine[TX]) measures() bool { return e.cfg.Observer != nil && !e.alarms }

// shows reports whether the observer is shown ev.
func (e *Engine[TX]) shows(ev Event) bool {
	return e.cfg.Observer != nil && (!e.alarms || levelOf(ev) >= slog.LevelWarn)
}

// clock reads the time if the observer receives durations.
func (e *Engine[TX]) clock() (now time.Time) {
	if e.measures() {
		now = time.Now()
	}
	return now
}

// since returns the time since began if the observer receives durations.
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

// observeEnd reports the end of the call.
func (c *call[TX]) observeEnd(ctx context.Context, v verdict) {
	e := Event{Type: EventFinished, Outcome: OutcomeExecuted, Effect: v.effect(), Err: v.err}
	switch {
	case v.err != nil:
		e.Outcome, e.Effect = Outcome(CodeOf(v.err)), EffectOf(v.err)
		var answer interface{ NotStored() bool } // of a transport
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
	if e.Outcome == Outcome(CodeConflict) && c.e.currentFrame(ctx) == nil { // for a Join, the call around it reports the deadlock
		e.Deadlock = c.isDeadlock(v.err)
	}
	c.send(ctx, e)
}

// isDeadlock reports whether the store knows err as a deadlock of the database.
func (c *call[TX]) isDeadlock(err error) bool {
	d, ok := store.As[ability.DeadlockDetector](c.e.store)
	return ok && d.IsDeadlock(err)
}

// stateAfter is the state in which the call has left its operation.
func (c *call[TX]) stateAfter(e Event, v verdict) string {
	switch {
	case c.id.IsZero(), v.provisional: // the caller's transaction decides
		return ""
	case e.Effect == EffectApplied, v.err == nil:
		return store.StateDone.String()
	case e.Effect == EffectInDoubt && e.Outcome != Outcome(CodeUnknown), store.KindOf(v.err) == store.KindTaken:
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

// named returns e with the operation that it is about.
func (c *call[TX]) named(e Event) Event {
	e.Name, e.Scope, e.Fingerprint, e.Attempt, e.TraceID = c.op.Name, c.op.Scope, c.op.Fingerprint, c.op.Attempt, traceparent.TraceID(c.report.trace)
	if c.op.Key != "" && c.report.keyHash == "" {
		c.report.keyHash = KeyHash(c.op.Key)
	}
	e.KeyHash = c.report.keyHash
	return e
}

// observeEffectOutside reports a success whose handler has not used its transaction: if the handler had an
// effect, nothing protects it from being repeated.
func (c *call[TX]) observeEffectOutside(ctx context.Context, txn transaction[TX], a Answer, writes int) {
	if c.e.cfg.Observer == nil || a.Result.Kind == store.ResultFailure || a.Result.Status >= 300 || writes > 0 {
		return
	}
	if n, ok := store.As[ability.Counter](txn.Transaction); ok && n.Statements() == 0 {
		c.observe(ctx, EventEffectOutsideTx, errOutside)
	}
}

var errOutside = errors.New("the handler succeeded without running a statement on its transaction: its writes elsewhere are not rolled back, and a retry may write them twice. Try: write through the transaction that the handler receives")

// Observers returns an observer that shows every event to each of list, in order. It is a
// [Tracer] if one of them is. Each of several gets the context that the one before it has
// returned, and the first trace that is not "" is kept.
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

// tracers are observers at least one of which is a Tracer.
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
