// Package lease runs work that does not fit into one commit, because it calls other services or needs several
// transactions. After a crash the work continues where it stopped, on any node. If nothing proves whether a
// call took effect, the outcome is "unknown".
//
//	jobs := once.New(lease.New(s, lease.Config{}), once.Config{})
//	paid, err := once.Do(ctx, jobs, op, func(ctx context.Context, run *lease.Run) (Charge, error) {
//		order, err := lease.InTx(ctx, run, s, "reserve", reserve) // business write and recovery point: one commit
//		if err != nil {
//			return Charge{}, err
//		}
//		return lease.Call(ctx, run, "charge", func(ctx context.Context, key string) (Charge, error) {
//			return provider.Charge(ctx, order, key) // the same key in every run
//		}, lease.CallPolicy{DedupedFor: 24*time.Hour})
//	})
//
// A handler is a sequence of phases, each with a name. A phase that was committed is not executed again: a later
// run of the handler gets the stored value of the phase. So the code outside of the phases must depend only on
// the request and on the values of phases.
//
// The handler's first phase claims the operation, so the code before the first phase may run on two nodes at the
// same time. (With Config.Eager, the operation is claimed before the handler begins.) After the claim, the
// process that runs the handler is the owner of the operation, as long as the process renews its lease. If the
// owner dies, the next caller with the same key or a [Completer] takes the operation over. The record of an
// operation contains a number, the fence. Each write of the owner increases the fence, and is applied only if
// the record still has the fence of the owner's previous write. So an owner that was paused, and continues after
// a takeover, can commit nothing.
//
// # Calls with an unknown outcome
//
// The intent (a note that a call is about to be made) is committed before the call. The result of the call is
// committed with the next commit of the operation. If the owner dies between the commit of the intent and the
// commit of the result, the call may have taken effect. The policy of the call ([CallPolicy]) decides what
// happens after the death of the owner:
//
//   - With SafeToRepeat, the call is made again, under the same key.
//   - With DedupedFor, the call is made again under the same key, as long as the called service remembers the
//     key.
//   - With Check, a function asks the called service whether the call took effect.
//   - If the policy has none of the fields SafeToRepeat, DedupedFor and Check, the outcome is unknown. If the
//     outcome is unknown, callers get [once.CodeUnknown], nothing runs again automatically, and a person
//     decides with [Resolve].
//
// If a service has not received a call yet, the call may still arrive: an owner that was paused may send the
// call, or a slow network may deliver the call. So a check has two definite answers: the call has taken effect
// ([Happened]), or the service will refuse the call for ever ([Voided]). For Voided, the service needs a
// tombstone: a record that makes the service refuse the key.
package lease
