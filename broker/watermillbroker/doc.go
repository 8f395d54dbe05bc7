// Package watermillbroker delivers messages of an outbox with any publisher of the library Watermill, and so to every broker that Watermill
// supports. The package also applies each message of a Watermill subscriber once, through an inbox.
//
// # Publisher
//
//	relay := box.Relay(watermillbroker.Publisher(amqpPublisher), outbox.RelayConfig{})
//
// Each message is published by one call of Publish. The UUID of the Watermill message is the ID of the message. The metadata of the Watermill message
// is a CloudEvent 1.0 in binary mode: ce_id, ce_type, ce_source, ce_time, ce_partitionkey (the ordering key), ce_sequence (the number of the message
// within its topic and key) and traceparent (the trace). Messages with the same topic and key are published one after the other. Messages with
// different keys are published concurrently, at most 16 at a time. Watermill requires that publishers can be called concurrently.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. To keep the promises
// of an outbox, and to give each message one effect in the consumer, meet the following requirements:
//
//   - The method Publish of the Watermill publisher must return nil only after the broker has stored the message durably. For AMQP, set
//     Publish.ConfirmDelivery. For NATS, use JetStream without async publishing. For SQL, the transaction must have committed.
//   - For AMQP, a durable queue must be bound before the first message is sent: RabbitMQ confirms a message that no queue takes, and drops the
//     message. The publisher of watermill-amqp declares no queue, and ignores messages that the broker returns when Publish.Mandatory is set. Call
//     SubscribeInitialize of a subscriber for each topic before the relay runs.
//   - The broker must keep messages whose UUID it has already seen. (watermill-nats has a setting with which the broker drops messages whose UUID
//     it has already seen.) If the broker dropped a message whose UUID it has already seen, a different message to which an application has given
//     the same ID would be lost.
//   - The publisher must keep the order of the calls of Publish. If the broker has partitions, the partition key must be made of ce_partitionkey,
//     for example with kafka.NewWithPartitioningMarshaler.
//   - The consumer must drop a message whose ce_id it has seen before, or whose ce_sequence is not greater than the ce_sequence of the last message
//     with the same key. A consumer that uses [Handler] drops duplicates and old messages in this way.
//
// Watermill's Publish has no context. When the context of a delivery ends, the message counts as not delivered, but the call of Publish continues. So
// a message that counts as not delivered may still arrive, even after later messages of its key. A call of Publish that does not return still counts
// among the 16 concurrent calls.
//
// Watermill does not classify errors. So every error of a Watermill publisher counts as a failure of the message, and the message is tried again.
//
// # Handler
//
// [Handler] and [Middleware] apply each message through an inbox, and the router acknowledges the message after the commit. A message can be a
// CloudEvent in binary mode (ce_id, ce_source, ce_type, ...) or structured mode (JSON). If a message is not a CloudEvent, its ID is the UUID of the
// Watermill message, which must be the same in every delivery. The publishers of Watermill send the same UUID in every delivery. The topic of a
// message is the topic of the subscription, which the router reports. A malformed message becomes a dead letter of class "malformed".
//
// The handler gives a failed message back to the broker (Nack). Watermill has no function to delay the next delivery. Most brokers would deliver a
// failed message again at once, so the message would use up its attempts within a short time. So the handler holds a failed message until its next
// attempt is due, for at most 10 seconds. If the subscriber delivers one message after the other, later messages wait until the handler gives the
// failed message back. If the delay of later messages is too long for you, use a subscriber that delivers concurrently, or allow fewer attempts in
// inbox.Config.Policy. Do not use the middlewares Retry and PoisonQueue: the inbox counts attempts, and stores messages that are given up. The
// broker must allow a consumer to hold a message for 10 seconds plus the time of the handler.
//
// A panic of a handler is a failed attempt. Router.Close waits for running handlers, for at most RouterConfig.CloseTimeout.
package watermillbroker
