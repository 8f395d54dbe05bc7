// Package once makes retried operations take effect once: sync.Once across
// processes, networks and crashes.
//
// The key of the operation, the business write and the stored result are one
// commit of the user's own database. A crash at any point leaves all of it or
// nothing; the next retry executes or replays.
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
// Package oncehttp does the same for HTTP handlers. GUARANTEES.md lists every
// promise and the test that proves it.
package once
