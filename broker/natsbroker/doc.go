// Package natsbroker delivers messages of an outbox to NATS JetStream. The package also consumes the messages of a JetStream stream, and applies
// each message once, through an inbox.
//
//	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
//	js, err := jetstream.New(nc)
//	relay := box.Relay(natsbroker.Publisher(js), outbox.RelayConfig{})
//
// The topic of a message is its subject. Each message is a CloudEvent 1.0 in binary mode. The headers of the message are ce-id, ce-type, ce-source,
// ce-time, ce-partitionkey (the ordering key), ce-sequence (the number of the message within its topic and key) and traceparent (the trace). The
// header Nats-Msg-Id has the ID of the message and a hash of its content. So a stream drops a second copy of a message that arrives within the
// duplicate window of the stream, but keeps a different message to which an application has given the same ID.
//
// A message counts as delivered when the stream has confirmed the message. The publisher sends only one message with the same topic and key at
// a time, and at most 512 messages with different keys. So the stream stores the messages of a key in their order, even if one message fails.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. To keep the promises
// of an outbox, and to give each message one effect in the consumer, meet the following requirements:
//
//   - Streams must have file storage and acknowledgements. If the loss of one disk must not lose a message, streams must also have three replicas.
//   - A stream needs replicas on other machines, or the server needs "sync_interval: always" in its configuration. By default nats-server confirms a
//     message before it is on the disk, and calls fsync every two minutes. If the server process is killed, no message is lost. If the machine of
//     the server loses power, the messages since the last fsync are lost. NATS does not report the setting sync_interval to clients.
//   - The duplicate window ([jetstream.StreamConfig].Duplicates) must be longer than the time until the relay sends a message again. If the
//     duplicate window is shorter, consumers may get a message twice. So consumers must drop a message whose ce-id they have seen before, or whose
//     ce-sequence is not greater than the ce-sequence of the last message with the same key.
//   - The limits of the stream must refuse new messages (jetstream.DiscardNew). A limit with jetstream.DiscardOld, or a MaxAge, deletes messages
//     that no consumer has read.
//   - If a consumer needs the messages of a key in their order, the consumer must handle one message of the key at a time, and must drop each message
//     whose ce-sequence is not greater than the ce-sequence of the last message with the same key. The reason is that JetStream delivers an
//     unacknowledged message again later.
//
// The function [EnsureStream] creates a stream that meets the requirements of this section, and returns an error if an existing stream
// does not meet the requirements. The function [Check] reports which requirements of this section are not met.
//
// # Consumers
//
// [Consume] passes the messages of a stream to an inbox, which applies each message once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := natsbroker.Consume(ctx, js, in, book, natsbroker.ConsumerConfig{Subjects: []string{"refunds"}})
//
// A message can be a CloudEvent in binary mode or in structured mode (JSON). The CloudEvents binding for NATS says that a message in structured
// mode needs no content type. A message that is not a CloudEvent must have a header Idempotency-Key or Nats-Msg-Id, whose value becomes the ID of
// the message.
//
// Consume acknowledges a message after the commit that applies it. If the process dies before the acknowledgement, or the acknowledgement is lost,
// the message is delivered again, and the inbox recognises the duplicate. Consume returns a failed message to the server, which delivers the message
// again after the pause of inbox.Config.Policy. While a message waits or its handler runs, Consume extends the time for the acknowledgement after
// each third of AckWait. If a handler does not return, Consume stops extending the time for the acknowledgement after inbox.Config.HandlerTimeout.
//
// In one process, at most one transaction at a time applies messages of the same key. If several processes receive messages of the same key, the
// inbox applies the messages of the key in their order. While the database refuses transactions, Consume tries to apply one message at a time,
// with pauses between the attempts.
//
// A consumer with an inbox has the following further requirements:
//
//   - The consumer must be a durable pull consumer with explicit acknowledgements, an unlimited MaxDeliver and no BackOff, because the inbox decides
//     when a message is tried again and when it is given up. Consume creates a consumer with the required settings; [CheckConsumer] and the command
//     "once doctor --to" report settings that were changed later.
//   - AckWait must be longer than a process may pause (for garbage collection, or while its virtual machine is moved). If AckWait is shorter,
//     messages are delivered twice, but the inbox applies each message once.
//   - MaxAckPending must be larger than the number of messages that fail at the same time. MaxAckPending counts a failed message until the message is
//     applied or becomes a dead letter.
//   - The inbox must keep the IDs of messages (inbox.Config.Retain) for longer than the stream keeps unacknowledged messages.
package natsbroker
