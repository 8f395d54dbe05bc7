// Package amqpbroker delivers messages of an outbox to RabbitMQ. The package also consumes the messages of a RabbitMQ queue, and applies each
// message once, through an inbox.
//
//	conn, err := amqpbroker.Dial("amqp://localhost", amqp.Config{})
//	err = amqpbroker.Declare(ctx, conn, amqpbroker.Queue{Name: "refunds"})
//	relay := box.Relay(amqpbroker.Publisher(conn, ""), outbox.RelayConfig{})
//
// The topic of a message becomes the routing key. If the publisher uses the default exchange, the routing key is the name of the queue. Each message
// is a CloudEvent 1.0 in binary mode. The headers of the message are cloudEvents_id, cloudEvents_type, cloudEvents_source, cloudEvents_time,
// cloudEvents_partitionkey (the ordering key), cloudEvents_sequence (the number of the message within its topic and key) and traceparent (the
// trace). The property message-id is the ID of the message, and the property delivery-mode is 2 (persistent). The property correlation-id is a
// number that the publisher uses internally.
//
// A message counts as delivered when a queue has taken the message and the server has confirmed the message. If no queue takes a message, the
// server returns the message, and then also confirms the message. The publisher notices that the server has returned a message, and the returned
// message waits in the outbox until a queue exists. The publisher sends only one message with the same topic and key at a time, and at most 512
// messages with different keys. So a queue has the messages of a key in their order, even if one message fails. If a connection is lost, [Conn]
// connects again.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. To keep the
// promises of an outbox, and to give each message one effect in the consumer, meet the following requirements:
//
//   - You need a durable queue without auto-delete for each topic. The queue must exist well before the first message. The function [Declare]
//     makes quorum queues, which have copies on several servers and call fsync before they confirm a message.
//   - No limit of a queue may delete messages. So do not set x-message-ttl, and set x-max-length only together with "x-overflow: reject-publish".
//   - If several services must each get all messages, you need an exchange, and you must bind one queue for each service to this exchange.
//     Processes that consume the same queue share the messages of this queue.
//   - The consumer must drop a message whose cloudEvents_id it has seen before, or whose cloudEvents_sequence is not greater than the
//     cloudEvents_sequence of the last message with the same key. RabbitMQ itself does not drop a message that a relay sends twice.
//
// The function [Check] reports which requirements of this section are not met. Check does not see the settings that a policy of
// the server adds to a queue.
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
// Consume acknowledges a message after the commit that applies it. If the process dies or the connection is lost before Consume has acknowledged
// a message, the message is delivered again, and the inbox recognises the duplicate. A failed message is tried again by the same process, after
// the pause of inbox.Config.Policy. The process does not acknowledge a failed message during the pause. Ten minutes after the failure the process
// gives the message back to the queue, even if the pause is longer, because the server closes the channel of a consumer that does not acknowledge
// a message for 30 minutes. When the process gives a message back, the server delivers the message again at once. So no pause is longer than ten
// minutes.
//
// In one process, at most one transaction at a time applies messages of the same key. If several processes receive messages of the same key, the
// inbox applies the messages of the key in their order. While the database refuses transactions, Consume tries to apply one message at a time,
// with pauses between the attempts.
//
// A consumer with an inbox has the following further requirements:
//
//   - The queue must have no x-delivery-limit, or must have both x-delivery-limit and x-dead-letter-exchange. The inbox decides when a message is
//     given up, and stores a message that is given up as a dead letter in its table. RabbitMQ 4 has a default limit of 20 deliveries for quorum
//     queues. To remove the limit of 20 deliveries, set a policy with "delivery-limit: -1".
//   - The consumer_timeout of the server must be longer than ten minutes plus the time of a handler. The default of consumer_timeout is 30
//     minutes.
//   - The inbox must keep the IDs of messages (inbox.Config.Retain) for longer than a message can wait in the queue.
package amqpbroker
