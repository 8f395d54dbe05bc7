package bugbank

// relayMutants are bugs of package cmd/once/internal/relay.
var relayMutants = []Mutant{
	{
		Name:  "a relay ends when it does not reach its database at the start",
		Edits: []Edit{{In: "isUnreached", Old: "errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError))", New: "errors.As(err, new(*net.DNSError))"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestWhatARelayWaitsFor"}},
	},
}
