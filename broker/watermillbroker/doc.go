// Package watermillbroker delivers messages of an outbox to any publisher of Watermill, and so to every broker that Watermill supports. It consumes
// messages of any subscriber, and applies each once.
//
// # Publisher
//
//	relay := box.Relay(watermillbroker.Publisher(amqpPublisher), outbox.RelayConfig{})
//
// Each message is a call of Publish with one message: the UUID is the ID, and the metadata is a CloudEvent 1.0 in binary
// mode: ce_id, ce_type, ce_source, ce_time, ce_partitionkey (the key) and ce_sequence (its number within topic and key), and
// traceparent for the trace. One message of a topic and key is on its way at a time, and up to 16 of different keys,
// because Watermill asks of publishers that they can be called concurrently.
//
// # What the promise needs
//
//   - A publisher whose Publish returns nil only after the broker has stored the message durably: for AMQP with
//     Publish.ConfirmDelivery, for NATS with JetStream and without async publishing, for SQL with a transaction that has committed.
//   - For AMQP, a durable queue that is bound before the first message is sent: RabbitMQ confirms a message that no queue takes, and drops it.
//     The publisher of watermill-amqp declares no queue, and ignores messages that the broker returns when Publish.Mandatory is set. Call
//     SubscribeInitialize of a subscriber for each topic before the relay runs.
//   - A broker that does not drop messages by their UUID, as watermill-nats can: another message with the same ID would be lost.
//   - A publisher that keeps the order of calls, and a partition key made of ce_partitionkey where the broker has
//     partitions, such as kafka.NewWithPartitioningMarshaler.
//   - A consumer that drops messages whose ce_id it knows, or whose ce_sequence is not greater than the last one of the
//     key: [Handler] is one.
//
// Watermill's Publish has no context. When the context of a delivery ends, the message counts as not delivered, and the call goes on: its message may
// arrive later, even after later ones of its key. Calls that do not return keep their place among the 16.
//
// Watermill does not classify errors. All of them count as errors of the message, which is tried again.
//
// # Handler
//
// [Handler] and [Middleware] apply each message through an inbox, and the router acknowledges it after the commit. A
// message is a CloudEvent in binary mode (ce_id, ce_source, ce_type, ...) or structured mode (JSON). Another message
// has its UUID as the ID: that must be the same in every delivery, as it is with publishers of Watermill. The topic is the topic of the subscription,
// as the router reports it. A malformed message becomes a dead letter of class "malformed".
//
// A failed message is given back (Nack), and Watermill has no delay: most brokers deliver it again at once, and its attempts would be used up within
// a moment. So the handler holds the message until its next attempt is due, for at most 10 seconds. If the subscriber delivers one message after the
// other, later ones wait as well, and none overtakes it. If that is too slow, use a subscriber that delivers concurrently, or fewer attempts in
// inbox.Config.Policy. Put neither the middleware Retry nor PoisonQueue around it: the inbox counts attempts and keeps messages that are given up. A
// broker must allow that a message is held for 10 seconds and the time of the handler.
//
// Panics of a handler are failed attempts. Router.Close drains: it waits for running handlers, for at most RouterConfig.CloseTimeout.
package watermillbroker
