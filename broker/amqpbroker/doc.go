// Package amqpbroker delivers messages of an outbox to RabbitMQ. It also consumes the messages of a RabbitMQ queue, and applies each of them once
// through an inbox.
//
//	conn, err := amqpbroker.Dial("amqp://localhost", amqp.Config{})
//	err = amqpbroker.Declare(ctx, conn, amqpbroker.Queue{Name: "refunds"})
//	relay := box.Relay(amqpbroker.Publisher(conn, ""), outbox.RelayConfig{})
//
// The topic of a message is its routing key. With the default exchange, the routing key is the name of the queue. Each message is a CloudEvent 1.0 in
// binary mode. The headers of the message are cloudEvents_id, cloudEvents_type, cloudEvents_source, cloudEvents_time, cloudEvents_partitionkey (the
// ordering key), cloudEvents_sequence (its number within topic and key) and traceparent (the trace). The property message-id is the ID, and
// delivery-mode is 2 (persistent). The property correlation-id is a number that the publisher uses internally.
//
// A message counts as delivered when a queue has taken it and the server has confirmed the message. If no queue takes a message, the server returns
// the message, and then also confirms it. The publisher recognises the returned message, and the message waits in the outbox until a queue exists.
// The publisher sends one message of a topic and key at a time, and at most 512 messages of different keys. So a queue has the messages of a key in
// their order, even if one of them fails. [Conn] connects again after a lost connection.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. For this promise, and
// for one effect of each message in the consumer, you need:
//
//   - A durable queue for each topic, without auto-delete, that exists well before the first message. [Declare] makes quorum queues, which have
//     copies on several servers and call fsync before they confirm a message.
//   - No limit that deletes messages. So do not set x-message-ttl, and set x-max-length only together with "x-overflow: reject-publish".
//   - One queue for each service that must get all messages, bound to an exchange. Processes that consume the same queue share the messages of this
//     queue.
//   - A consumer that drops a message whose cloudEvents_id it has seen before, or whose cloudEvents_sequence is not greater than the
//     cloudEvents_sequence of the last message with the same key. RabbitMQ does not recognise a message that a relay sends again.
//
// [Check] reports which of these requirements are not met. Check cannot see settings that a policy of the server adds to a queue.
//
// # Consumers
//
// [Consume] passes the messages of a queue to an inbox, which applies each message once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := amqpbroker.Consume(ctx, conn, in, book, amqpbroker.ConsumerConfig{Queue: "refunds"})
//
// A message can be a CloudEvent in binary mode or in structured mode (JSON). A message that is not a CloudEvent must have the property message-id or
// a header Idempotency-Key. The value of this property or header becomes the ID of the message.
//
// Consume acknowledges a message after the commit that applies it. If the process dies before the acknowledgement, or the connection is lost, the
// message is delivered again and the inbox recognises it. A failed message is tried again by the same process, after the pause of
// inbox.Config.Policy. The process does not acknowledge the message during the pause. After ten minutes the process gives the message back to the
// queue, also in the middle of a pause, because the server closes the channel of a consumer that does not acknowledge a message for 30 minutes. The
// server then delivers the message again at once. So no pause is longer than ten minutes.
//
// In one process, at most one transaction at a time applies messages of the same key. If several processes receive messages of the same key, the
// inbox keeps the order of these messages. While the database refuses transactions, Consume tries one message at a time, with pauses between the
// attempts.
//
// To consume with an inbox, you also need:
//
//   - No x-delivery-limit, or an x-delivery-limit together with an x-dead-letter-exchange. The inbox decides when a message is given up, and stores
//     it as a dead letter in its table. RabbitMQ 4 has a default limit of 20 deliveries for quorum queues. To remove this limit, set a policy with
//     "delivery-limit: -1".
//   - A consumer_timeout of the server that is longer than ten minutes plus the time of a handler. The default is 30 minutes.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than messages can wait in the queue.
package amqpbroker
