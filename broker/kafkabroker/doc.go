// Package kafkabroker delivers messages of an outbox to Kafka, and applies the records of topics through an inbox.
//
//	client, err := kgo.NewClient(kgo.SeedBrokers("kafka:9092"), kgo.DisableIdempotentWrite())
//	relay := box.Relay(kafkabroker.Publisher(client), outbox.RelayConfig{})
//
// The topic is the topic of Kafka, and the key is the key of the record, so that a key stays in one partition. Each message is a CloudEvent 1.0 in
// binary mode: the headers ce_id, ce_type, ce_source, ce_time, ce_partitionkey (the key) and ce_sequence (its number within topic and key) describe
// it, and traceparent carries the trace.
//
// A message counts as delivered when all replicas in sync have it. One message of a topic and key is on its way at a time, and up to 512 of different
// keys: a partition has the messages of a key in their order, even if one of them fails.
//
// # What the promise needs
//
//   - A client that waits for all replicas in sync (kgo.AllISRAcks, the default). [Publisher] delivers nothing by another one.
//   - A client that is made with kgo.DisableIdempotentWrite. [Publisher] delivers nothing by another one, because an idempotent client can lose a
//     record: the broker writes a record, its answer is lost, and the broker refuses the second attempt. The client then
//     gives the number of this record to the next one, which the broker discards as a duplicate and confirms. Nothing is lost without idempotent
//     writes: a relay repeats a message, and the consumer drops duplicates.
//   - A client that chooses the partition by the key (the default). More partitions move keys: add them
//     while no message waits.
//   - Topics with three replicas, min.insync.replicas=2 and unclean.leader.election.enable=false. Kafka does not call fsync
//     before it confirms: replicas on several machines are what survives a power failure.
//   - A consumer that drops records whose ce_id it knows, or whose ce_sequence is not greater than the last one of the key: Kafka
//     does not know that a record which a relay sends again is the same.
//
// [Check] reports which of these are missing, except for idempotent writes, which matter only to a client that publishes.
//
// # Consumers
//
// [Consume] gives the records of topics to an inbox, which applies each once:
//
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
//	err := kafkabroker.Consume(ctx, in, book, kafkabroker.ConsumerConfig{
//		Client: []kgo.Opt{kgo.SeedBrokers("kafka:9092")}, Topics: []string{"refunds"},
//	})
//
// It commits the offset of a partition each second, up to the first record that is not done. If the process dies, the records after it come again and
// the inbox detects them. Kafka delivers a record once to a process: a failed message is tried again by the same process, after the pause of the
// inbox's policy. Meanwhile other partitions go on. So do other keys of the partition, at most ConsumerConfig.Window records ahead, and until the
// waiting records of the partition have used its share of ConsumerConfig.PrefetchBytes; then the partition is not fetched until messages are applied
// or dead letters. Later messages of the key go to the inbox if they have a number (inbox.InOrder parks them in its table), and wait if they have no
// number.
//
// A partition goes to another process when the running handlers have returned and the offset is committed, within three quarters of
// kgo.RebalanceTimeout. If that is not long enough, or if the broker has lost contact with the process, two processes may have a record at the same
// time; the inbox applies it once.
//
// The promise of an inbox needs, in addition to the settings above:
//
//   - A group that begins at the start of a topic where no offset is committed (the default of the client), and an
//     offsets.retention.minutes of the brokers that is longer than a consumer may be away.
//   - A topic that keeps records longer than a consumer may be away. One that is compacted drops older records of a key, which inbox.InOrder then
//     waits for: use inbox.LatestVersion.
//   - A retention of IDs in the inbox (inbox.Config.Retain) that is longer than the retention of the topic, if offsets may be reset.
//
// The tests of this package use a model of Kafka (package kfake) and cut its connections. No crash of a Kafka broker has been tested.
package kafkabroker
