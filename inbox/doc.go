// Package inbox applies each message once. The effect of a message, and the fact that it was applied, are one
// commit; the consumer acknowledges the message after this commit.
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing"})
//	outcome, err := in.Handle(ctx, m, func(ctx context.Context, tx pgx.Tx, m message.Message) error {
//		return book(ctx, tx, m)
//	})
//	if err == nil {
//		acknowledge(m) // applied, now or before
//	}
package inbox
