// Package once makes an operation take effect once, however often its callers retry it. It is sync.Once across
// processes, networks and crashes.
//
// The key of the operation, the business writes and the stored result are one commit in the user's own
// database. A crash at any point leaves either all of them or none. The next retry executes the operation or
// replays its result.
//
//	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
//
//	op := once.Operation{
//		Scope:  "acme refunds",
//		Key:    once.DeriveKey("refund", "ch_9ab", "1000"),
//		Retain: once.Forever, // only one such refund, ever
//	}
//	refund, err := once.Do(ctx, engine, op, func(ctx context.Context, tx pgx.Tx) (Refund, error) {
//		return insertRefund(ctx, tx, "ch_9ab", 1000)
//	})
//
// Package oncehttp does the same for HTTP handlers. GUARANTEES.md lists every promise, and the test that proves
// each promise.
package once
