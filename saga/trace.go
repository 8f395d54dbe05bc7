package saga

import (
	"context"
	"errors"

	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// SpanKind is the kind of work that a span covers.
type SpanKind string

// These are the kinds of spans.
const (
	SpanRun    SpanKind = "run"    // a node runs a saga until the saga ends, waits or is stuck
	SpanStep   SpanKind = "step"   // a step with its commit, or one request of a call
	SpanUndo   SpanKind = "undo"   // the undo of a finished step
	SpanCheck  SpanKind = "check"  // the service is asked for the outcome of a call
	SpanCancel SpanKind = "cancel" // a call in flight is cancelled at its service
)

// Span describes, for a [Tracer], a span (a traced part of the work of a saga).
type Span struct {
	Kind SpanKind
	Saga string // the name of the saga's definition
	ID   ID

	Step, StepKey string // the name of the step, except in SpanRun; StepKey is the key that was passed to DoKey

	Start      string // if Kind is SpanRun: the traceparent that [Tracer.SagaTrace] returned when the saga was started
	Background bool   // if Kind is SpanRun: [Runner.Run] has found the saga, and no caller waits for it
}

// These constants say how a span (a traced part of the work of a saga) has ended. A span of the kind SpanRun can
// also end with the state that its saga has reached, such as [StateCompleted].
const (
	EndDone        = "done"        // the step, undo or check has succeeded
	EndNo          = "no"          // the step has returned a [once.Failure]
	EndNotYet      = "not_yet"     // the step has returned [Again]
	EndFailed      = "failed"      // the work has failed: it is tried again later, or the saga compensates, or the saga is stuck
	EndOvertaken   = "overtaken"   // another node has taken the saga over, or the saga was started before
	EndInterrupted = "interrupted" // for a span of the kind SpanRun: the run has ended because the node could not write to the store
)

// Tracer starts a span for each run of a saga, and within the span of the run one span for each step, undo and
// check that runs.
type Tracer interface {
	// SagaTrace returns the W3C traceparent of the span in ctx, in which a saga is started. The traceparent is
	// stored with the saga. "" means no trace.
	SagaTrace(ctx context.Context) string

	// SagaSpan is called when a span begins. The work of the span runs with the returned context. SagaSpan is not
	// called for a step that already has a result. The function end is called one time, when the span ends. The
	// argument how of end is a constant whose name begins with End, or a state of the saga. The argument err of
	// end is an error if the span ends in a failure.
	SagaSpan(ctx context.Context, s Span) (_ context.Context, end func(how string, err error))
}

// traceOf returns the trace context that is stored at the start of a saga.
func (n *node) traceOf(ctx context.Context) string {
	if n.cfg.Tracer == nil {
		return ""
	}
	return n.cfg.Tracer.SagaTrace(ctx)
}

// traced runs fn, which is a part of the saga, in a span of Config.Tracer. A panic in fn is an error here already: see protect.
func (r *run) traced(ctx context.Context, kind SpanKind, b begun, fn func(context.Context) error) error {
	if r.n.cfg.Tracer == nil {
		return fn(ctx)
	}
	ctx, end := r.n.cfg.Tracer.SagaSpan(ctx, Span{Kind: kind, Saga: r.def.name, ID: idOf(r.id), Step: b.Name, StepKey: b.Key})
	err := fn(ctx)
	switch again := (*againError)(nil); {
	case err == nil:
		end(EndDone, nil)
	case errors.Is(err, errLost), errors.Is(err, errExists):
		end(EndOvertaken, nil)
	case errors.As(err, &again):
		end(EndNotYet, nil)
	case saysNo(err):
		end(EndNo, nil)
	default:
		end(EndFailed, err)
	}
	return err
}

// saysNo reports whether err is an answer of the service, so that the outcome is known.
func saysNo(err error) bool {
	f := failureIn(err)
	return f != nil && f.Code != codeDuplicate && !lease.IsNotSent(err) && store.KindOf(err) == store.KindOther
}

// tracedRun does the same as traced, for a whole run of the saga.
func (r *run) tracedRun(ctx context.Context, fn func(context.Context) error) error {
	if r.n.cfg.Tracer == nil {
		return fn(ctx)
	}
	ctx, end := r.n.cfg.Tracer.SagaSpan(ctx, Span{Kind: SpanRun, Saga: r.def.name, ID: idOf(r.id), Start: r.own.Claim.Trace, Background: r.background})
	err := fn(ctx)
	switch {
	case errors.Is(err, errLost), errors.Is(err, errExists):
		end(EndOvertaken, nil)
	case err != nil:
		end(EndInterrupted, err)
	case r.became == StateStuck:
		end(StateStuck, errors.New(r.saved.Stuck))
	default:
		end(r.became, nil)
	}
	return err
}
