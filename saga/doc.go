// Package saga runs work of several services and transactions with one outcome: either all steps of the work take
// effect, or the effects of all steps are undone. If the node (the process) that runs a saga dies, another node
// finishes the saga.
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
// A flow (the program of a saga) is an ordinary Go function. A flow may run many times for one saga: a step that
// an earlier run has finished does not run again, but returns its stored result. So the code of a flow outside of
// its steps must depend only on the input of the flow and on the results of the steps. If a run of the flow does
// not reach a step that an earlier run has taken, the program has changed, and the new program would do other
// work than the saga has begun. A saga whose program has changed in this way is stuck: the saga does nothing
// until a person decides.
//
// # Errors of a step
//
//   - a [once.Failure] means that the answer of the step is "no". The failure of a step is stored, and each later
//     run of the flow gets the same failure again. After the failure of a step, the flow may take another step,
//     or return the failure.
//   - an error that the function [Again] has made means that the answer of the step is "not yet". While a saga
//     waits, it holds neither a lock nor a connection.
//   - after an error that is neither a once.Failure nor an error of Again, the step is tried again, after a growing pause. If the step
//     is a call to another service, the outcome of the call is not known: see [Call].
//
// # Compensation and pivot
//
// A saga compensates when the flow returns a failure, when a step has used all its tries, when the deadline has
// passed, or when a caller cancels the saga. To compensate means that the flow does not run again, and that the
// saga undoes its steps. Exception: if the pivot (the step after which a saga can no longer be undone) was in
// flight at the time of the decision to compensate, and turns out to have succeeded, the flow continues. The
// decision to compensate is stored before the first undo or together with the first undo. The steps are undone in
// reverse order. The runner finds the undo of a step by the name of the step, and passes the stored input and the
// stored result of the step to the undo. A step that has failed has no effect, and is not undone. If a call is in
// flight, the runner finds out the outcome of the call before the first undo: the runner repeats the call with
// the same key, asks the service for the outcome, or cancels the call by its key. The effect of a step without an
// undo stays.
//
// A step can be the pivot: after the pivot the saga can no longer compensate (undo its steps). If a step after
// the pivot answers "no", the saga is stuck: it waits for the decision of a person. A saga is also stuck if an
// undo has used all its tries, or if nothing can find out the outcome of a call. If a saga is stuck, a person
// decides how the saga continues, with the function [Decide] or the command "once saga".
//
// # One row
//
// A saga is stored in one row of the table of operations, and the node that runs the saga has a lease on this
// row. The row contains the results of the saga's steps. While the saga waits, it has a second row, in a table of
// this package ([Migrations]). Each step needs one commit. A step that calls another service needs one more
// commit, for its intent (the note that the call will be made). If a saga is started with the function [Do], the
// start is part of the commit of the first step.
package saga
