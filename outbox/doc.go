// Package outbox publishes events that commit with the business write: a message is stored in the
// transaction of the user, and a [Relay] delivers it at least once, in the order of its key,
// from any number of processes.
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
// [Relay.Run] ends with nil when ctx ends. Its error says that it cannot work at all, for example because
// the tables are missing: then nothing is delivered, so a service ends or says so.
package outbox
