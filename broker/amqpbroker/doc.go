// Package amqpbroker delivers messages of an outbox to RabbitMQ, and applies the messages of a queue through an inbox.
//
//	conn, err := amqpbroker.Dial("amqp://localhost", amqp.Config{})
//	err = amqpbroker.Declare(ctx, conn, amqpbroker.Queue{Name: "refunds"})
//	relay := box.Relay(amqpbroker.Publisher(conn, ""), outbox.RelayConfig{})
//
// The topic is the routing key; with the default exchange it is the name of the queue. Each message is a CloudEvent 1.0 in binary mode:
// the headers cloudEvents_id, cloudEvents_type, cloudEvents_source, cloudEvents_time, cloudEvents_partitionkey (the key) and
// cloudEvents_sequence (its number within topic and key) describe it, and traceparent carries the trace. The property message-id is the ID, and
// delivery-mode is 2 (persistent). The property correlation-id is a number that the publisher needs itself.
//
// A message counts as delivered when a queue has taken it and the server has confirmed that. If no queue takes it, the server returns it and confirms
// it as well: the publisher waits for both, and such a message waits in the outbox until a queue exists. One message of a topic and key is on its way
// at a time, and up to 512 of different keys: a queue has the messages of a key in their order, even if one of them fails. [Conn] connects again
// after a lost connection.
//
// # What the promise needs
//
//   - A durable queue for each topic, without auto-delete, long before the first message. [Declare] makes quorum queues, which have
//     copies on several servers, and which call fsync before they confirm.
//   - No limit that deletes messages: no x-message-ttl, no x-max-length without x-overflow: reject-publish.
//   - A queue for each service that must get all messages, bound to an exchange: processes that consume one queue share it.
//   - A consumer that drops messages whose cloudEvents_id it knows, or whose cloudEvents_sequence is not greater than the last one of the key:
//     RabbitMQ does not know that a message which a relay sends again is the same.
//
// [Check] reports which of these are missing. It does not see policies.
//
// # Consumers
//
// [Consume] gives the messages of a queue to an inbox, which applies each once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := amqpbroker.Consume(ctx, conn, in, book, amqpbroker.ConsumerConfig{Queue: "refunds"})
//
// A message is a CloudEvent in binary mode, or in structured mode: in JSON. Any other message needs the property message-id or a header
// Idempotency-Key, which is its ID.
//
// It acknowledges a message after the commit that applies it, over the channel that has delivered it. If the process dies before that, or the
// connection is lost, the message comes again and the inbox detects it. A failed message is tried again by the same process, after the pause of the
// inbox's policy, without an answer to the server. After ten minutes it goes back to the queue, because the server closes the channel of a consumer
// that gives no answer for 30 minutes. A process has one transaction at a time with messages of a key; several processes may have messages of one
// key, and the inbox keeps their order. While the database refuses work, the consumer takes one message at a time, with pauses.
//
// The promise of an inbox needs, in addition to the settings above:
//
//   - No x-delivery-limit, or one with an x-dead-letter-exchange: the inbox says when a message is given up, and keeps it as a dead letter
//     in its table. RabbitMQ 4 has a limit of 20 for quorum queues that have no other: set a policy with delivery-limit: -1 there.
//   - A consumer_timeout of the server that is longer than ten minutes and the time of a handler. The default is 30 minutes.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than messages wait in the queue.
package amqpbroker
