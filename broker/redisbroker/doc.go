// Package redisbroker delivers messages of an outbox to streams of Redis 7 or Valkey. It also consumes the messages of such streams, and applies each
// of them once through an inbox.
//
//	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
//	relay := box.Relay(redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}), outbox.RelayConfig{})
//
// The topic of a message is the name of the stream; the first message creates the stream. Each message is a CloudEvent 1.0 in binary mode. The fields
// of the message are ce_id, ce_type, ce_source, ce_time, ce_partitionkey (the ordering key), ce_sequence (its number within topic and key),
// traceparent (the trace) and ce_data (the payload).
//
// A message counts as delivered when the server has answered XADD. The publisher sends one message of a topic and key at a time, and as many messages
// of different keys as the client has connections, at most 64. So a stream has the messages of a key in their order, even if one of them fails. If an
// answer is lost, the message is sent again and is in the stream twice. So consumers must drop a message whose ce_id they have seen before, or whose
// ce_sequence is not greater than the ce_sequence of the last message with the same key.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. For this promise, and
// for one effect of each message in the consumer, you need:
//
//   - A server with an append-only file and "appendfsync always". With "everysec" the server answers before a message is on the disk, and, while the
//     disk is busy, even before the operating system has it. A power failure then loses the messages of the last one or two seconds, and so does a kill while the disk is busy.
//   - No failover to a replica that lacks messages. Redis replicates asynchronously, so a failover loses the messages that the new primary has not
//     received. [PublisherConfig].Replicas makes such a loss less likely, but cannot exclude it, because Redis may promote a replica that has
//     confirmed nothing.
//   - "maxmemory-policy noeviction". Any other policy may delete a whole stream. With noeviction, messages wait in the outbox while the memory of the
//     server is full.
//   - No deletion of messages before they are read. [PublisherConfig].MaxLen and XTRIM also delete messages that no consumer has read;
//     [ConsumerConfig].Keep deletes only messages that every group has acknowledged.
//
// [Check] reports which of these requirements are not met.
//
// # Consumers
//
// [Consume] passes the messages of streams to an inbox, which applies each message once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := redisbroker.Consume(ctx, rdb, in, book, redisbroker.ConsumerConfig{Streams: []string{"refunds"}})
//
// Consume creates the consumer group, which begins at the start of the stream. Consume acknowledges a message (XACK) after the commit that applies
// it. If the process dies before the acknowledgement, or the acknowledgement is lost, another process claims the message after MinIdle (XAUTOCLAIM),
// and the inbox recognises the message. While a message waits or its handler runs, the process claims the message for itself after each third of
// MinIdle. If a handler does not return, the process stops these claims after inbox.Config.HandlerTimeout.
//
// A failed message is tried again by the same process, after the pause of inbox.Config.Policy. At most Prefetch messages that have failed, or wait
// for an earlier message of their key, stay in memory. Consume releases further messages of this kind, and they are delivered again after MinIdle.
// The inbox counts the attempts, and stores a message that is given up as a dead letter. Several processes may receive messages of one key; the inbox
// keeps the order of these messages. Each stream is read independently, so a stream that cannot be read does not delay the other streams.
//
// Each process has its own Redis consumer in the group, and deletes this consumer when Consume ends. Other processes delete the consumers of dead
// processes when these consumers have no pending messages. Do not delete a consumer by hand: XGROUP DELCONSUMER removes its pending messages from the
// group, and no process gets them again.
//
// To consume with an inbox, you also need:
//
//   - A MinIdle that is longer than a process may pause (for garbage collection, or while its virtual machine is moved). With a shorter MinIdle
//     messages are delivered twice, and the inbox still applies them once.
//   - A group that exists before messages of its stream are deleted, because a group does not get deleted messages. [CheckConsumer] reports how many
//     messages a group has missed.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than a stream keeps messages, because a group that is lost (by a failover,
//     for example) is created again and begins at the start of the stream.
package redisbroker
