package bugbank

// sealMutants are bugs of package internal/base/seal.
var sealMutants = []Mutant{
	{
		Name:  "a payload that the caller changes after Add is stored changed",
		Edits: []Edit{{In: "seal.Message", Old: "append([]byte{}, payload...)", New: "payload[:len(payload):len(payload)]"}},
		Tests: outboxOn("TestAddFreezes$/^pgxstore"),
	},
	{
		Name:  "a sealed request opens under another key",
		Edits: []Edit{{In: "seal.Label", Old: `[]byte(scope + "\x00" + storedKey)`, New: "[]byte(scope)"}},
		Tests: in("", "TestEncryptionLabelsDiffer"),
	},
}
