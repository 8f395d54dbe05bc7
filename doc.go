// Package once makes an operation take effect once, however often its callers retry it. The package works like
// sync.Once, but across processes, networks and crashes.
//
// The key of the operation, the business writes and the stored result are one commit in the user's own
// database. After a crash at any point, either the key, the writes and the result are all committed, or
// nothing is committed. After the crash, the next retry executes the operation or replays the stored result.
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
// Package oncehttp makes HTTP handlers take effect once per key. GUARANTEES.md lists every promise, and the
// test that proves each promise.
package once
