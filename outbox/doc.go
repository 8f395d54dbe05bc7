// Package outbox publishes events that commit together with the business write. A message is stored in the
// transaction of the business write. After the commit, a [Relay] delivers the message at least once. The
// messages of one key are delivered in the order in which their transactions commit. Any number of processes
// can run a relay.
//
//	box := outbox.New(s, outbox.Config{})                           // s is the SQL store of the engine
//	relay := box.Relay(natsbroker.Publisher(js), outbox.RelayConfig{})
//	engine := once.New(s, once.Config{AfterCommit: relay.Wake})             // a commit wakes the relay
//	go func() { failed <- relay.Run(ctx) }()                        // on any number of nodes
//
//	once.Do(ctx, engine, op, func(ctx context.Context, tx pgx.Tx) (Refund, error) {
//		r, err := createRefund(ctx, tx)
//		if err != nil {
//			return r, err
//		}
//		return r, box.Add(ctx, tx, message.Message{Topic: "refunds", Key: r.Account, Type: "refund.succeeded", Payload: body})
//	})
//
// [Relay.Run] returns nil when ctx ends. If Run returns an error, the relay cannot work at all, for example
// because the tables are missing. After Run has returned an error, the relay delivers nothing, so the service
// should end or report the error.
package outbox
