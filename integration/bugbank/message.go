package bugbank

// messageMutants are bugs of package message.
var messageMutants = []Mutant{
	{
		Name:  "a header of HTTP itself can be added",
		Edits: []Edit{{In: "message.IsOfDelivery", Old: `strings.HasPrefix(name, "ce-") ||`, New: ""}},
		Tests: outboxTest("TestChecksRefuseTheWholeAdd"),
	},
}
