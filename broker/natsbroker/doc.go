// Package natsbroker delivers messages of an outbox to NATS JetStream, and applies the messages of a stream through an inbox.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
//	js, err := jetstream.New(nc)
//	relay := box.Relay(natsbroker.Publisher(js), outbox.RelayConfig{})
//
// The topic is the subject. Each message is a CloudEvent 1.0 in binary mode: the headers ce-id, ce-type, ce-source, ce-time,
// ce-partitionkey (the key) and ce-sequence (its number within topic and key) describe it, and
// traceparent carries the trace. Nats-Msg-Id is the ID of the message and a hash of its content, so that a stream drops a second delivery within its
// duplicate window. It does not drop another message with the same ID: its consumers decide about that.
//
// A message counts as delivered when the stream has confirmed it. One message of a topic and key is on its way at a time, and up to 512 of different
// keys: the stream stores the messages of a key in their order, even if one of them fails.
//
// # What the promise needs
//
//   - Streams with file storage and acknowledgements, with three replicas if the loss of one disk must lose no message.
//   - nats-server confirms a message before it is on the disk: it calls fsync every two minutes. A
//     process that is killed loses nothing; a machine that loses power loses newer messages, unless the stream has replicas on
//     other machines or the server has "sync_interval: always". No client can ask for that setting.
//   - A duplicate window ([jetstream.StreamConfig].Duplicates) longer than the time until a redelivery. Without it
//     consumers see a message twice, and drop it by ce-id, or by a ce-sequence that is not greater than the last one of the key.
//   - Limits that refuse new messages (jetstream.DiscardNew) instead of ones that delete messages which no consumer has read.
//   - A consumer that needs the order of a key handles one message of it at a time, and drops messages whose
//     ce-sequence is not greater than the last one: JetStream delivers a message that was not acknowledged again later.
//
// [EnsureStream] creates such a stream, or refuses a stream with other settings. [Check] reports which of these a server does not have.
//
// # Consumers
//
// [Consume] gives the messages of a stream to an inbox, which applies each once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := natsbroker.Consume(ctx, js, in, book, natsbroker.ConsumerConfig{Subjects: []string{"refunds"}})
//
// A message is a CloudEvent in binary mode, or in structured mode: in JSON, also without a content type, as the binding of CloudEvents
// for NATS has it. Any other message needs a header Idempotency-Key or Nats-Msg-Id, which is its ID.
//
// It acknowledges a message after the commit that applies it. If the process dies before that, or the acknowledgement is lost, the message comes
// again and the inbox detects it. A failed message goes back to the server with the pause of the inbox's policy. While a message waits or a handler
// runs, the server gets a sign of life every third of AckWait, but no longer than inbox.Config.HandlerTimeout for a handler that does not return. A
// process has one transaction at a time with messages of a key; several processes may have messages of one key, and the inbox keeps their order.
// While the database refuses work, the consumer takes one message at a time, with pauses.
//
// The promise of an inbox needs, in addition to the settings above:
//
//   - A durable pull consumer with explicit acknowledgements, an unlimited MaxDeliver and no BackOff: the inbox decides when
//     a message is tried again and given up. Consume creates such a consumer; [CheckConsumer] and once doctor --to report changed settings.
//   - An AckWait that is longer than a pause of a process (of its garbage collector, of a machine that moves). A shorter one costs
//     duplicates, and no correctness.
//   - A MaxAckPending that is larger than the number of messages that fail at the same time. They count until they are
//     applied or dead letters.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than the stream keeps messages which were not acknowledged.
package natsbroker
