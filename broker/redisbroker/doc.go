// Package redisbroker delivers messages of an outbox to streams of Redis 7 or Valkey, and applies the messages of streams through an inbox.
//
//	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
//	relay := box.Relay(redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}), outbox.RelayConfig{})
//
// The topic is the name of the stream, which the first message creates. Each message is a CloudEvent 1.0 in binary mode: the fields ce_id, ce_type,
// ce_source, ce_time, ce_partitionkey (the key) and ce_sequence (its number within topic and key) describe it, traceparent carries the trace, and
// ce_data is the payload.
//
// A message counts as delivered when the server has answered XADD. One message of a topic and key is on its way at a time, and as many of different
// keys as the client has connections: a stream has the messages of a key in their order, even if one of them fails. After a lost answer a message is
// sent again, and is in the stream twice: consumers drop it by ce_id, or by a ce_sequence that is not greater than the last one of the key.
//
// # What the promise needs
//
//   - A server with an append-only file and "appendfsync always". With "everysec" it answers before a message is on the disk, and, while the disk is busy,
//     before the operating system has it: a power failure or a kill loses the last second, or two.
//   - Replicas follow later: a failover loses messages that the new primary has not received. [PublisherConfig].Replicas makes that rarer, and does not exclude it,
//     because Redis may promote a replica that has confirmed nothing.
//   - "maxmemory-policy noeviction": any other one may delete a whole stream. When the memory is full, topics wait.
//   - A stream that nothing trims before it is read. [PublisherConfig].MaxLen and XTRIM delete messages that no consumer has read; [ConsumerConfig].Keep deletes
//     only messages that every group has acknowledged.
//
// [Check] reports which of these a server does not have.
//
// # Consumers
//
// [Consume] gives the messages of streams to an inbox, which applies each once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := redisbroker.Consume(ctx, rdb, in, book, redisbroker.ConsumerConfig{Streams: []string{"refunds"}})
//
// It creates the group at the start of a stream, and acknowledges a message (XACK) after the commit that applies it. If the process dies before that,
// or the acknowledgement is lost, another process claims the message after MinIdle (XAUTOCLAIM), and the inbox detects it. While a message waits or a
// handler runs, the process claims it for itself every third of MinIdle, but no longer than inbox.Config.HandlerTimeout for a handler that does not
// return.
//
// A failed message is tried again by the same process, after the pause of the inbox's policy. When as many as Prefetch have failed or wait for their
// key, further ones stay with the group, and come again after MinIdle. Redis counts the deliveries; the inbox counts attempts, and makes a dead
// letter of a message that is given up. Several processes may have messages of one key, and the inbox keeps their order. Each stream is read
// independently: a stream that cannot be read delays no other.
//
// Each process has a consumer of its own in the group, and deletes it at the end. Consumers of dead processes are deleted when they have no pending
// messages. Never delete one by hand before: XGROUP DELCONSUMER removes its pending messages from the group, and no process gets them again.
//
// The promise of an inbox needs, in addition to the settings above:
//
//   - A MinIdle that is longer than a pause of a process (of its garbage collector, of a machine that moves). A shorter one costs
//     duplicates, and no correctness.
//   - A group that exists before messages of its stream are trimmed: it does not get trimmed messages. [CheckConsumer] reports how many it has missed.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than a stream keeps messages: a group that is lost (by FLUSHALL, or a failover) begins
//     at the start again.
package redisbroker
