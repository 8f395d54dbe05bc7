package saga

import (
	"context"
	"errors"

	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// SpanKind is what lasts as long as a span.
type SpanKind string

// What a [Tracer] sees.
const (
	SpanRun    SpanKind = "run"    // a node runs a saga, until that ends, waits or is stuck
	SpanStep   SpanKind = "step"   // a step with its commit, or one request of a call
	SpanUndo   SpanKind = "undo"   // the undo of a step that is done
	SpanCheck  SpanKind = "check"  // what became of a call is asked
	SpanCancel SpanKind = "cancel" // a call under way is cancelled at its service
)

// Span is what a [Tracer] is told of a span.
type Span struct {
	Kind SpanKind
	Saga string // the name of its definition
	ID   ID

	Step, StepKey string // of all but SpanRun; StepKey is that of DoKey

	Start      string // of SpanRun: what [Tracer.SagaTrace] has returned at the start of the saga
	Background bool   // of SpanRun: [Runner.Run] has found the saga, and no caller waits for it
}

// How a span ends, beside the states of a saga ([StateOf]) in which a run ends.
const (
	EndDone        = "done"        // the step, undo or check has come to its end
	EndNo          = "no"          // the step has returned a [once.Failure]
	EndNotYet      = "not_yet"     // the step has returned [Again]
	EndFailed      = "failed"      // it is tried again later, or the saga turns or is stuck
	EndOvertaken   = "overtaken"   // another node has the saga, or it was started before
	EndInterrupted = "interrupted" // of a run: the node could not write
)

// Tracer starts a span for each run of a saga, and in it for each step, undo and check that runs.
type Tracer interface {
	// SagaTrace returns the W3C traceparent of the span in ctx, in which a saga is started. It is stored with the saga. "": none.
	SagaTrace(ctx context.Context) string

	// SagaSpan is called when the span begins, which goes on with the context that it returns. It is not called for a step that has its
	// result already. end is called once, with how it ends and the error of an end that is not in order.
	SagaSpan(ctx context.Context, s Span) (_ context.Context, end func(how string, err error))
}

// traceOf is the trace of a start.
func (n *node) traceOf(ctx context.Context) string {
	if n.cfg.Tracer == nil {
		return ""
	}
	return n.cfg.Tracer.SagaTrace(ctx)
}

// traced runs fn, which is a part of the saga, and shows it to Config.Tracer. A panic in fn is an error: see protect.
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

// saysNo reports whether err is an answer, and does not say that nothing is known.
func saysNo(err error) bool {
	f := failureIn(err)
	return f != nil && f.Code != codeDuplicate && !lease.IsNotSent(err) && store.KindOf(err) == store.KindOther
}

// tracedRun is traced for the run of a saga.
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
