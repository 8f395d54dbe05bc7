package bugbank

// pushMutants are receivers that confirm what was not applied, lose an order, or burn the attempts of a message.
var pushMutants = []Mutant{
	{
		Name:  "a receiver confirms a message whose handler has failed",
		Edits: []Edit{{In: "receiver.(*receiver).apply", Old: "if result.Err != nil {", New: "if result.Err != nil && r.Method == \"\" {"}},
		Tests: in("broker/httpbroker", "TestReceiverAnswers"),
	},
	{
		Name:  "half of a request is taken for a malformed message",
		Edits: []Edit{{In: "receiver.(*receiver).ServeHTTP", Old: "err != nil && !errors.As(err, &tooLarge)", New: "err != nil && !errors.As(err, &tooLarge) && len(body) == -1"}},
		Tests: []Killer{{Module: ".", Package: "broker/httpbroker", Test: "TestReceiverAnswers"}, {Module: "integration", Package: "push", Test: "TestReceiverLosesConnections"}},
	},
	{
		Name:  "a malformed message is refused and not kept",
		Edits: []Edit{{In: "receiver.(*receiver).reject", Old: "messages[0].ID != \"\"", New: "messages[0].ID == \"\""}},
		Tests: in("broker/httpbroker", "TestReceiverAnswers"),
	},
	{
		Name:  "messages of two topics that come by one path share an order",
		Edits: []Edit{{In: "receiver.topicOf", Old: "len(lines) == 1", New: "len(lines) == 1 && lines[0] == \"\""}},
		Tests: []Killer{{Module: ".", Package: "broker/httpbroker", Test: "TestReceiverTopic"}, {Module: "integration", Package: "push", Test: "TestReceiver"}},
	},
	{
		Name:  "a receiver stores the secrets of a request with a message",
		Edits: []Edit{{In: "receiver.Headers", Old: "if ofRequest(name) {", New: "if ofRequest(name) && name == \"\" {"}},
		Tests: in("broker/httpbroker", "TestReceiverKeepsNoSecrets"),
	},
	{
		Name:  "a webhook is applied before its signature is checked",
		Edits: []Edit{{In: "receiver.(*receiver).ServeHTTP", Old: "err := rc.cfg.Verify(r, body); err != nil", New: "err := rc.cfg.Verify(r, body); err != nil && len(body) == -1"}},
		Tests: []Killer{{Module: ".", Package: "broker/httpbroker", Test: "TestReceiverVerifies"}, {Module: "integration", Package: "push", Test: "TestWebhooks"}},
	},
	{
		Name:  "what is too large to be verified is kept as a dead letter",
		Edits: []Edit{{In: "receiver.(*receiver).ServeHTTP", Old: "if tooLarge != nil {", New: "if tooLarge != nil && len(body) == -1 {"}},
		Tests: in("broker/httpbroker", "TestReceiverVerifies"),
	},
	{
		Name:  "a webhook that cannot be verified now is refused",
		Edits: []Edit{{In: "receiver.writeUnverified", Old: "after > 0 || ofDatabase(err)", New: "after < 0 && ofDatabase(err)"}},
		Tests: in("broker/httpbroker", "TestReceiverVerifies"),
	},
	{
		Name:  "the later events of a webhook are applied after an earlier lot has failed",
		Edits: []Edit{{In: "receiver.(*receiver).apply", Old: "writeFailure(w, result.Err)\nreturn", New: "writeFailure(w, result.Err)\nbreak"}},
		Tests: in("broker/httpbroker", "TestReceiverDecodes"),
	},
	{
		Name:  "a failed message is given back to Watermill at once",
		Edits: []Edit{{In: "watermillbroker.(*consumer).consume", Old: "min(max(after, shortestWait), longestWait)", New: "min(after, 0)"}},
		Tests: []Killer{{Module: "broker/watermillbroker", Test: "TestConsumer"}},
	},
	{
		Name:  "messages that a handler of Watermill returns are dropped",
		Edits: []Edit{{In: "watermillbroker.Apply", Old: "err == nil && len(produced) > 0", New: "err == nil && len(produced) > 99"}},
		Tests: []Killer{{Module: "broker/watermillbroker", Test: "TestApply"}},
	},
	{
		Name:  "an attribute of an event may be there twice",
		Edits: []Edit{{In: "cloudevent.(*decoder).readAttribute", Old: "if d.has(name) {", New: "if d.has(name) && name == \"\" {"}},
		Tests: in("message/cloudevent", "TestMalformed"),
	},
	{
		Name:  "a sequence that is no number is an event without an order",
		Edits: []Edit{{In: "cloudevent.(*decoder).setSeq", Old: "d.failf(", New: "_ = fmt.Sprintf("}},
		Tests: in("message/cloudevent", "TestMalformed"),
	},
	{
		Name:  "an event in JSON over NATS must name its content type",
		Edits: []Edit{{In: "cloudevent.Decode", Old: "b.bare && d.isBare(body)", New: "b.bare && d.isBare(nil)"}},
		Tests: in("message/cloudevent", "TestEventsOfTheSDK"),
	},
	{
		Name:  "a message over NATS that names itself is taken for an event",
		Edits: []Edit{{In: "cloudevent.(*decoder).isBare", Old: "len(d.keys) > 0 || ", New: ""}},
		Tests: in("message/cloudevent", "TestNoEventOverNATS"),
	},
	{
		Name:  "a bare percent sign is lost",
		Edits: []Edit{{In: "cloudevent.Unescape", Old: "plain = append(plain, value[i])", New: "if value[i] != '%' {\nplain = append(plain, value[i])\n}"}},
		Tests: in("message/cloudevent", "TestDecode"),
	},
	{
		Name:  "an extension that is no text is left out",
		Edits: []Edit{{In: "cloudevent.(*decoder).text", Old: "d.failf(", New: "_ = fmt.Sprintf("}},
		Tests: in("message/cloudevent", "TestMalformed"),
	},
	{
		Name:  "JSON that is not UTF-8 is read with its bytes replaced",
		Edits: []Edit{{In: "cloudevent.(*decoder).readStructured", Old: "if !utf8.Valid(body) {", New: "if !utf8.Valid(nil) {"}},
		Tests: in("message/cloudevent", "TestMalformed"),
	},
}
