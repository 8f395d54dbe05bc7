package once

import "context"

// Observers returns an observer that shows every event to each of list, in order.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) Observe(ctx context.Context, e Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}
