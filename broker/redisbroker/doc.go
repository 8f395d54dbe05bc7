// Package redisbroker delivers messages of an outbox to streams of Redis 7 or Valkey. The package also consumes the messages of Redis streams, and
// applies each message once, through an inbox.
//
//	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
//	relay := box.Relay(redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}), outbox.RelayConfig{})
//
// The topic of a message is the name of its stream. If the stream does not exist, the first message creates the stream. Each message is a CloudEvent
// 1.0 in binary mode. The fields of the message are ce_id, ce_type, ce_source, ce_time, ce_partitionkey (the ordering key), ce_sequence (the number
// of the message within its topic and key), traceparent (the trace) and ce_data (the payload).
//
// A message counts as delivered when the server has answered XADD. The publisher sends only one message with the same topic and key at a time. The
// number of messages with different keys that the publisher sends at the same time is the number of connections of the client, but at most 64. So a
// stream has the messages of a key in their order, even if one message fails. If the answer to a message is lost, the message is sent again, and is
// in the stream twice. So consumers must drop a message whose ce_id they have seen before, or whose ce_sequence is not greater than the ce_sequence
// of the last message with the same key.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. To keep the promises
// of an outbox, and to give each message one effect in the consumer, meet the following requirements:
//
//   - The server must have an append-only file and "appendfsync always". With "appendfsync everysec" the server answers before a message is on the
//     disk. While the disk is busy, the server answers even before the operating system has the message. So with "appendfsync everysec", a power
//     failure, or a kill while the disk is busy, loses the messages of the last one or two seconds.
//   - No failover may choose a replica that lacks messages. Redis replicates asynchronously, so a failover loses the messages that the new primary
//     has not received. [PublisherConfig].Replicas makes the loss of messages in a failover less likely, but does not exclude it, because Redis may
//     promote a replica that has confirmed nothing.
//   - The server must have "maxmemory-policy noeviction". Any other maxmemory-policy may delete a whole stream. With noeviction, messages wait in the
//     outbox while the memory of the server is full.
//   - No message may be deleted before all consumers have read the message. [PublisherConfig].MaxLen and the command XTRIM also delete messages that
//     no consumer has read; [ConsumerConfig].Keep deletes only messages that every group has acknowledged.
//
// The function [Check] reports which requirements of this section are not met.
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
// MinIdle. If a handler does not return, the process stops claiming its message after inbox.Config.HandlerTimeout.
//
// A failed message is tried again by the same process, after the pause of inbox.Config.Policy. At most Prefetch messages that have failed, or that
// wait for an earlier message of their key, stay in memory. If more than Prefetch messages have failed or wait, Consume removes the further messages
// from its memory, and Redis delivers the removed messages again after MinIdle. The inbox counts the attempts, and stores a message that is given up
// as a dead letter. Several processes may receive messages with the same key; the inbox applies the messages of a key in their order. Consume reads
// each stream independently, so if one stream fails, the other streams are not delayed.
//
// Each process has its own Redis consumer in the group, and deletes this consumer when Consume ends. When the Redis consumer of a dead process has no
// pending messages, another process deletes this consumer. Do not delete a consumer by hand: XGROUP DELCONSUMER removes the pending messages of a
// consumer from the group, and no process gets these messages again.
//
// A consumer with an inbox has the following further requirements:
//
//   - MinIdle must be longer than a process may pause (for garbage collection, or while its virtual machine is moved). If MinIdle is shorter,
//     messages are delivered twice, but the inbox applies each message once.
//   - The consumer group must exist before messages of its stream are deleted, because a group does not get deleted messages. [CheckConsumer] reports
//     how many messages a group has missed.
//   - The inbox must keep the IDs of messages (inbox.Config.Retain) for longer than a stream keeps messages. The reason is that a group which is lost
//     (in a failover, for example) is created again and begins at the start of the stream.
package redisbroker
