package bugbank

// natsbrokerMutants are bugs of package broker/natsbroker.
var natsbrokerMutants = []Mutant{
	{
		Name:  "a consumer goes on with a connection that is closed for good",
		Edits: []Edit{{In: "(*consumer).fetchAll", Old: "nc.IsClosed()", New: "nc == nil"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestNATSIsClosed", Hangs: true}},
	},
	{
		Name:  "a NATS publisher gives messages to a connection that is lost",
		Edits: []Edit{{In: "natsbroker.(*publisher).Publish", Old: "status != nats.CONNECTED", New: "status == nats.CLOSED"}, {In: "natsbroker.(*publisher).Publish", Old: "cancel(notConnected(status))\ncase <-ctx.Done():", New: "_ = status\ncase <-ctx.Done():"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestNATSSendsNothingLater"}},
	},
	{
		Name:  "a message of NATS has no ID that a stream knows again",
		Edits: []Edit{{In: "natsbroker.(*publisher).send", Old: "jetstream.WithMsgID(msgID(m)),", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestNATSRefusals"}},
	},
	{
		Name:  "a stream of NATS drops another message that has the same ID, as a duplicate",
		Edits: []Edit{{In: "natsbroker.msgID", Old: "h.Write(m.Payload)", New: "h.Reset()"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestNATSReusedID"}},
	},
	{
		Name:  "NATS: a stream that exists is taken as it is",
		Edits: []Edit{{In: "natsbroker.EnsureStream", Old: "refuse(stream.CachedInfo().Config, max(1, settings.Replicas)); err != nil", New: "refuse(stream.CachedInfo().Config, max(1, settings.Replicas)); err != nil && stream == nil"}},
		Tests: brokerTest("TestNATSEnsureStream"),
	},
	{
		Name:  "NATS: a stream is made that deletes when it is full",
		Edits: []Edit{{In: "natsbroker.EnsureStream", Old: "settings.Discard = jetstream.DiscardNew", New: ""}},
		Tests: brokerTest("TestNATSEnsureStream"),
	},
}
