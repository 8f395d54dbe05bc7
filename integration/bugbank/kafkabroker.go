package bugbank

// kafkabrokerMutants are bugs of package broker/kafkabroker.
var kafkabrokerMutants = []Mutant{
	{
		Name:  "a Kafka publisher takes a client that does not wait for the replicas",
		Edits: []Edit{{In: "kafkabroker.Publisher", Old: "case !waitsForAll(client):", New: "case false:"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestKafkaRefusals"}},
	},
	{
		Name:  "a Kafka publisher takes a client that writes idempotently",
		Edits: []Edit{{In: "kafkabroker.Publisher", Old: "client.OptValue(kgo.DisableIdempotentWrite) != true", New: "false"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestKafkaConfirmsOnlyWhatItHas"}},
	},
	{
		Name:  "an offset is committed beyond a record that is not done",
		Edits: []Edit{{In: "kafkabroker.(*receipt).Ack", Old: "len(p.records) > 0 && p.records[0].done", New: "len(p.records) > 0"}},
		Tests: []Killer{{Module: "broker/kafkabroker", Package: ".", Test: "TestLowestOffset"}},
	},
	{
		Name:  "a partition is given away while its records are in hand",
		Edits: []Edit{{In: "kafkabroker.(*consumer).revoked", Old: "timeout*3/4", New: "-timeout"}},
		Tests: consumerTest("TestKafkaRebalance"),
	},
	{
		Name:  "the offset of a partition that is lost is committed",
		Edits: []Edit{{In: "kafkabroker.(*receipt).Ack", Old: "r.done || p.lost", New: "r.done"}, {In: "kafkabroker.(*partition).end", Old: "p.records = nil", New: ""}},
		Tests: []Killer{{Module: "broker/kafkabroker", Package: ".", Test: "TestLostPartition"}},
	},
	{
		Name:  "records that have failed pause their partition before its share is used",
		Edits: []Edit{{In: "kafkabroker.(*partition).pause", Old: "work, share := p.open-p.apart, p.share()", New: "work, share := p.open, p.share()"}},
		Tests: []Killer{{Module: "broker/kafkabroker", Package: ".", Test: "TestPauseApart"}},
	},
	{
		Name:  "records that have failed are held without a bound",
		Edits: []Edit{{In: "kafkabroker.(*receipt).Apart", Old: "p.bytes += bytes", New: ""}},
		Tests: []Killer{{Module: "broker/kafkabroker", Package: ".", Test: "TestPauseApart"}},
	},
}
