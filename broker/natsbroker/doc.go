// Package natsbroker delivers messages of an outbox to NATS JetStream. It also consumes the messages of a JetStream stream, and applies each of them
// once through an inbox.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
//	js, err := jetstream.New(nc)
//	relay := box.Relay(natsbroker.Publisher(js), outbox.RelayConfig{})
//
// The topic of a message is its subject. Each message is a CloudEvent 1.0 in binary mode. The headers of the message are ce-id, ce-type, ce-source,
// ce-time, ce-partitionkey (the ordering key), ce-sequence (its number within topic and key) and traceparent (the trace). The header Nats-Msg-Id has
// the ID of the message and a hash of its content. So a stream drops a second delivery of the same message within its duplicate window, but keeps
// another message to which an application has given the same ID.
//
// A message counts as delivered when the stream has confirmed it. The publisher sends one message of a topic and key at a time, and at most 512
// messages of different keys. So the stream stores the messages of a key in their order, even if one of them fails.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. For this promise, and
// for one effect of each message in the consumer, you need:
//
//   - Streams with file storage and acknowledgements, with three replicas if the loss of one disk must lose no message.
//   - Replicas on other machines, or "sync_interval: always" in the configuration of the server. By default nats-server confirms a message before it
//     is on the disk, and calls fsync every two minutes. If the server process is killed, no message is lost. If the machine of the server loses
//     power, the messages since the last fsync are lost. A client cannot read this setting.
//   - A duplicate window ([jetstream.StreamConfig].Duplicates) longer than the time until a redelivery. With a shorter window consumers may get a
//     message twice. Consumers must then drop a message whose ce-id they have seen before, or whose ce-sequence is not greater than the ce-sequence
//     of the last message with the same key.
//   - Limits that refuse new messages (jetstream.DiscardNew). Limits with jetstream.DiscardOld, and a MaxAge, delete messages that no consumer has
//     read.
//   - If a consumer needs the order of a key, it must handle one message of the key at a time, and drop messages whose ce-sequence is not greater
//     than the ce-sequence of the last message with the same key, because JetStream delivers an unacknowledged message again later.
//
// [EnsureStream] creates such a stream, and returns an error if an existing stream has other settings. [Check] reports which of these requirements are
// not met.
//
// # Consumers
//
// [Consume] passes the messages of a stream to an inbox, which applies each message once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := natsbroker.Consume(ctx, js, in, book, natsbroker.ConsumerConfig{Subjects: []string{"refunds"}})
//
// A message can be a CloudEvent in binary mode or in structured mode (JSON). In structured mode a message needs no content type, as the CloudEvents
// binding for NATS defines. A message that is not a CloudEvent must have a header Idempotency-Key or Nats-Msg-Id, whose value becomes the ID of the
// message.
//
// Consume acknowledges a message after the commit that applies it. If the process dies before the acknowledgement, or the acknowledgement is lost,
// the message is delivered again and the inbox recognises it. Consume returns a failed message to the server, which delivers the message again after
// the pause of inbox.Config.Policy. While a message waits or its handler runs, Consume extends the time for the acknowledgement after each third of
// AckWait. If a handler does not return, Consume stops these extensions after inbox.Config.HandlerTimeout.
//
// In one process, at most one transaction at a time applies messages of the same key. If several processes receive messages of the same key, the
// inbox keeps the order of these messages. While the database refuses transactions, Consume tries one message at a time, with pauses between the
// attempts.
//
// To consume with an inbox, you also need:
//
//   - A durable pull consumer with explicit acknowledgements, an unlimited MaxDeliver and no BackOff: the inbox decides when a message is tried again
//     and given up. Consume creates such a consumer; [CheckConsumer] and the command "once doctor --to" report changed settings.
//   - An AckWait that is longer than a process may pause (for garbage collection, or while its virtual machine is moved). With a shorter AckWait
//     messages are delivered twice, and the inbox still applies them once.
//   - A MaxAckPending that is larger than the number of messages that fail at the same time. A failed message counts until it is applied or becomes a
//     dead letter.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than the stream keeps unacknowledged messages.
package natsbroker
