// Package saga runs work of several services and transactions with one outcome: either all of it takes effect, or its effects are undone. Any node
// finishes a saga whose node has died.
//
//	var reserve = saga.Tx("reserve", func(ctx context.Context, tx pgx.Tx, l Line) (Reservation, error) { ... }).
//		Undo(func(ctx context.Context, tx pgx.Tx, l Line, r Reservation) error { ... })
//	var charge = saga.Call("charge", func(ctx context.Context, key string, in ChargeIn) (Charge, error) { ... }).
//		DedupedFor(24 * time.Hour).
//		Undo(func(ctx context.Context, key string, in ChargeIn, c Charge) error { ... })
//	var Orders = saga.New("order", order, reserve, charge) // the flow, and the steps that it may take
//
//	func order(ctx saga.Context, o Order) (Receipt, error) {
//		r, err := reserve.Do(ctx, o.Line)
//		if err != nil {
//			return Receipt{}, err
//		}
//		c, err := charge.Do(ctx, ChargeIn{o.Card, r.Cents})
//		return Receipt{c.ID}, err
//	}
//
//	runner := saga.NewRunner(s, saga.Config{}, Orders) // s is the store
//	go runner.Run(ctx)                                 // on each node: finishes what other nodes have begun
//	receipt, err := saga.Do(ctx, runner, Orders, saga.ID{Tenant: "acme", Key: "order-42"}, o)
//
// A flow is ordinary Go. It may run many times: a finished step returns its earlier result. So the code of a flow outside of its steps must depend on
// nothing but its input and their results. If a run does not reach a step that an earlier run took, the saga is stuck before it does anything else:
// the program has changed, and would do other work than it has begun.
//
// # Errors of a step
//
//   - a [once.Failure] is a "no". It is stored: each run of the flow gets it again. The flow may take another step instead, or return it.
//   - [Again] is "not yet". The saga waits, and holds nothing.
//   - any other error: the step is tried again, with a growing pause. After a call, its outcome is not known; see [Call].
//
// # Turn and pivot
//
// When the flow returns a failure, a step has used all its tries, the deadline is over or a caller cancels it, the saga turns. The turn is stored
// before, or with, its first effect, and from then on the flow does not run. Steps are undone in reverse order. Each undo is found by the step's
// name, and gets its stored input and result. A step that has failed has no effect, and is not undone. A running call is resolved first: repeated
// under its key, checked, or cancelled by its key. The effect of a step without an undo stays.
//
// After a step with Pivot a saga cannot turn. A "no" there makes the saga stuck, and so does an undo that fails again and again, or a call with an
// outcome that nothing can find out: a person decides, with [Decide] or the command once saga.
//
// # One row
//
// A saga is one row of the table of operations, under a lease, with the results of its steps in it. While it waits it has a second row in a table of
// its own ([Migrations]). Each step is one commit, a call one more for its intent, and the start travels with the first step in [Do].
package saga
