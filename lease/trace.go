package lease

import (
	"context"
	"errors"
)

// Phase describes a phase for a [Tracer].
type Phase struct {
	Name string
	Call bool // the phase calls another service: see [Call]
}

// Tracer starts a span, or a similar object, for each phase that runs.
type Tracer interface {
	// PhaseStart is called when a phase begins to run, but not for a phase whose value is saved already. The
	// phase runs with the returned context. The function end is called one time, with the error of the phase,
	// even if the phase panics.
	PhaseStart(ctx context.Context, p Phase) (_ context.Context, end func(error))
}

var errPanic = errors.New("the function of the phase panicked")

// trace runs a phase and shows it to Config.Tracer.
func (r *Run) trace(ctx context.Context, p Phase, run func(context.Context) error) (err error) {
	if r.s.cfg.Tracer == nil {
		return run(ctx)
	}
	ctx, end := r.s.cfg.Tracer.PhaseStart(ctx, p)
	err = errPanic // stays if run panics
	defer func() { end(err) }()
	return run(ctx)
}
