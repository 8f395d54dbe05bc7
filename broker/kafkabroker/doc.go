// Package kafkabroker delivers messages of an outbox to Kafka. The package also consumes the records of Kafka topics, and applies each record once,
// through an inbox.
//
//	client, err := kgo.NewClient(kgo.SeedBrokers("kafka:9092"), kgo.DisableIdempotentWrite())
//	relay := box.Relay(kafkabroker.Publisher(client), outbox.RelayConfig{})
//
// The topic of a message is the Kafka topic. The ordering key of the message is the key of the record, so that all messages with the same key are in
// one partition. Each message is a CloudEvent 1.0 in binary mode. The headers of the message are ce_id, ce_type, ce_source, ce_time, ce_partitionkey
// (the ordering key), ce_sequence (the number of the message within its topic and key) and traceparent (the trace).
//
// A message counts as delivered when all in-sync replicas have the message. The publisher sends only one message with the same topic and key at
// a time, and at most 512 messages with different keys. So a partition has the messages of a key in their order, even if one message fails.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. To keep the
// promises of an outbox, and to give each message one effect in the consumer, meet the following requirements:
//
//   - The client must wait for all in-sync replicas (kgo.AllISRAcks, the default). With a client that does not wait for all in-sync replicas,
//     [Publisher] returns an error for every message.
//   - The client must be made with kgo.DisableIdempotentWrite. With a client that makes idempotent writes, [Publisher] returns an error for every
//     message, because such a client can lose a record. An example of a lost record: the broker writes record A, the answer to this write is lost,
//     and the broker refuses the second attempt for record A. After the refusal, the client gives the number of record A to the next record, record
//     B. The broker discards record B as a duplicate of record A, and confirms record B. Without idempotent writes no record is lost: a relay sends a
//     message again, and the consumer drops duplicates.
//   - The client must choose the partition by the key (the default). If you add partitions to a topic, keys move to other partitions: add partitions
//     only while no message waits.
//   - Topics must have three replicas, min.insync.replicas=2 and unclean.leader.election.enable=false. Kafka does not call fsync before it confirms a
//     message, so only replicas on several machines protect against a power failure.
//   - The consumer must drop a record whose ce_id it has seen before, or whose ce_sequence is not greater than the ce_sequence of the last record
//     with the same key. Kafka itself does not drop a record that a relay sends twice.
//
// The function [Check] reports which requirements of this section are not met. Check does not report a client with idempotent writes, because
// idempotent writes matter only in a client that publishes.
//
// # Consumers
//
// [Consume] passes the records of topics to an inbox, which applies each record once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := kafkabroker.Consume(ctx, in, book, kafkabroker.ConsumerConfig{
//		Client: []kgo.Opt{kgo.SeedBrokers("kafka:9092")}, Topics: []string{"refunds"},
//	})
//
// Consume commits the offset of a partition every second, up to the first record that the inbox has not yet applied or stored. If the process dies,
// the records after the committed offset are delivered again, and the inbox recognises the duplicates. Kafka delivers a record only once to a
// process, so a failed message is tried again by the same process, after the pause of inbox.Config.Policy.
//
// While a message waits for its next attempt, Consume continues with the records of other partitions. Consume also continues with the records of
// other keys in the same partition, until it is [ConsumerConfig].Window records ahead of the first waiting record, or until the waiting records have
// used the partition's share of ConsumerConfig.PrefetchBytes. When one of the two limits is reached, Consume stops fetching the partition until
// messages are applied or become dead letters. While a message waits, later messages with the same key are passed to the inbox if they have a number
// (ce_sequence). With inbox.InOrder, the inbox stores later messages of a waiting message's key in its table until the earlier messages are applied.
// While a message waits, later messages with the same key and without a number wait in memory.
//
// Before a partition is assigned to another process, Consume waits for the running handlers and commits the offset. Consume waits for at most three
// quarters of kgo.RebalanceTimeout. If the handlers take longer, or if the broker has lost contact with the process, two processes may have the same
// record at the same time. Even if two processes get the same record, the inbox applies the record once.
//
// A consumer with an inbox has the following further requirements:
//
//   - The consumer group must begin at the start of a topic if no offset is committed (the default of the client).
//   - The brokers must keep committed offsets (offsets.retention.minutes), and the topic must keep records, for longer than a consumer may be
//     stopped. A compacted topic drops older records of a key, and inbox.InOrder would wait for the dropped records: for a compacted topic use
//     inbox.LatestVersion.
//   - If an operator may reset offsets, the inbox must keep the IDs of records (inbox.Config.Retain) for longer than the topic keeps records.
//
// The tests of package kafkabroker use a simulated Kafka server (package kfake) and cut the connections to this server. The tests
// contain no crash of a real Kafka broker.
package kafkabroker
