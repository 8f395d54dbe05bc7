// Package kafkabroker delivers messages of an outbox to Kafka. It also consumes the records of Kafka topics, and applies each of them once through an
// inbox.
//
//	client, err := kgo.NewClient(kgo.SeedBrokers("kafka:9092"), kgo.DisableIdempotentWrite())
//	relay := box.Relay(kafkabroker.Publisher(client), outbox.RelayConfig{})
//
// The topic of a message is the Kafka topic, and its ordering key is the key of the record, so that all messages of a key are in one partition. Each
// message is a CloudEvent 1.0 in binary mode. The headers of the message are ce_id, ce_type, ce_source, ce_time, ce_partitionkey (the ordering key),
// ce_sequence (its number within topic and key) and traceparent (the trace).
//
// A message counts as delivered when all in-sync replicas have it. The publisher sends one message of a topic and key at a time, and at most 512
// messages of different keys. So a partition has the messages of a key in their order, even if one of them fails.
//
// # Requirements
//
// An outbox promises that each message is delivered at least once, and that the messages of a key are delivered in their order. For this promise, and
// for one effect of each message in the consumer, you need:
//
//   - A client that waits for all in-sync replicas (kgo.AllISRAcks, the default). With another client, [Publisher] returns an error for every message.
//   - A client that is made with kgo.DisableIdempotentWrite. With another client, [Publisher] returns an error for every message, because an
//     idempotent client can lose a record. This happens if the broker writes record A, the answer to this write is lost, and the broker refuses the
//     second attempt for record A. The client then gives the number of record A to the next record, record B. The broker discards record B as a
//     duplicate, and confirms it. Without idempotent writes no record is lost: a relay sends a message again, and the consumer drops duplicates.
//   - A client that chooses the partition by the key (the default). If partitions are added, keys move to other partitions: add partitions only while
//     no message waits.
//   - Topics with three replicas, min.insync.replicas=2 and unclean.leader.election.enable=false. Kafka does not call fsync before it confirms a
//     message, so only replicas on several machines protect against a power failure.
//   - A consumer that drops a record whose ce_id it has seen before, or whose ce_sequence is not greater than the ce_sequence of the last record with
//     the same key. Kafka does not recognise a record that a relay sends again.
//
// [Check] reports which of these requirements are not met. It does not report idempotent writes, which matter only to a client that publishes.
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
// the records after this offset are delivered again and the inbox recognises them. Kafka delivers a record only once to a process, so a failed
// message is tried again by the same process, after the pause of inbox.Config.Policy.
//
// While a message waits, other partitions continue. Messages of other keys in the same partition continue too, until Consume is ConsumerConfig.Window
// records ahead of the first waiting record, or until the waiting records have used the partition's share of ConsumerConfig.PrefetchBytes. At this
// limit, Consume stops fetching the partition until messages are applied or become dead letters. Later messages of the waiting key that have a number
// are passed to the inbox. With inbox.InOrder, the inbox stores these messages in its table until the earlier messages are applied. Later messages
// without a number wait in memory.
//
// Before a partition is assigned to another process, Consume waits for the running handlers and commits the offset. Consume waits for at most three
// quarters of kgo.RebalanceTimeout. If the handlers take longer, or if the broker has lost contact with the process, two processes may have the same
// record at the same time. The inbox still applies the record once.
//
// To consume with an inbox, you also need:
//
//   - A group that begins at the start of a topic if no offset is committed (the default of the client), and an offsets.retention.minutes of the
//     brokers that is longer than a consumer may be stopped.
//   - A topic that keeps records longer than a consumer may be stopped. A compacted topic drops older records of a key, and inbox.InOrder would wait
//     for them: use inbox.LatestVersion.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than the retention of the topic, if offsets may be reset.
//
// The tests of this package use a model of Kafka (package kfake) and cut its connections. No crash of a Kafka broker has been tested.
package kafkabroker
