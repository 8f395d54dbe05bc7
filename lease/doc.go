// Package lease runs work that one commit cannot hold, because it calls other services or spans
// several transactions: it goes on where it stopped, on any node, and says "unknown" when nothing
// proves whether a call took effect.
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
// A handler is a sequence of phases with names. A phase that was committed is not executed again: a
// later run of the handler gets its value. So the code outside of the phases must
// depend on nothing but the request and these values.
//
// The handler's first phase claims the operation, so the code before it may run on two nodes at
// the same time (Config.Eager claims before). From then on the record of the operation has an
// owner, for as long as its lease is renewed. When the owner dies, the next caller with the same key,
// or a [Completer], takes it over. Every write of the work raises a fence in the record, and is
// applied only under the fence before it: an owner that was stopped and wakes up can commit nothing.
//
// # Calls with an unknown outcome
//
// The intent to call is committed before the call, its result with the next commit. If the owner dies
// in between, the call may have taken effect. The policy of the call decides what happens then:
//
//   - SafeToRepeat of [CallPolicy]: it is made again, under the same key.
//   - DedupedFor: the same, as long as the provider knows the key.
//   - Check: the provider is asked.
//   - none of them: the outcome is unknown. Callers get [once.CodeUnknown], nothing runs again by
//     itself, and a person decides with [Resolve].
//
// If a provider has not seen a call, that proves nothing: the call may still be on its way, from an owner that was
// stopped or through a slow network. So a check can answer that the call happened, or that it was
// voided, which needs a tombstone at the provider, and nothing in between.
package lease
