package once

import (
	"cmp"
	"context"
	"slices"
)

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
