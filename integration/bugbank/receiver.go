package bugbank

// receiverMutants are bugs of package internal/receiver.
var receiverMutants = []Mutant{
	{
		Name:  "plain requests to all topics share their IDs",
		Edits: []Edit{{In: "receiver.(*receiver).decode", Old: "cmp.Or(m.Source, m.Topic)", New: "cmp.Or(m.Source)"}},
		Tests: []Killer{{Module: "integration", Package: "push", Test: "TestPlainPosts"}},
	},
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
		Tests: []Killer{{Module: ".", Package: "broker/httpbroker", Test: "TestReceiverTopic"}, {Module: "integration", Package: "push", Test: "TestReceiverAppliesEachMessageOnce"}},
	},
	{
		Name:  "a receiver stores the secrets of a request with a message",
		Edits: []Edit{{In: "receiver.Headers", Old: "if ofRequest(name) {", New: "if ofRequest(name) && name == \"\" {"}},
		Tests: in("broker/httpbroker", "TestReceiverKeepsNoSecrets"),
	},
	{
		Name:  "a webhook is applied before its signature is checked",
		Edits: []Edit{{In: "receiver.(*receiver).ServeHTTP", Old: "err := rc.cfg.Verify(r, body); err != nil", New: "err := rc.cfg.Verify(r, body); err != nil && len(body) == -1"}},
		Tests: []Killer{{Module: ".", Package: "broker/httpbroker", Test: "TestReceiverVerifies"}, {Module: "integration", Package: "push", Test: "TestWebhooksAreVerifiedAndAppliedOnce"}},
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
		Name:  "a forged challenge is answered",
		Edits: []Edit{{In: "receiver.(*receiver).ServeHTTP", Old: "if rc.cfg.Verify != nil {", New: "if rc.cfg.Verify != nil && (rc.cfg.Answer == nil || rc.cfg.Answer(body) == nil) {"}},
		Tests: in("webhook", "TestSlackChallenge"),
	},
}
