package bugbank

// onwardMutants are bugs of package internal/base/onward.
var onwardMutants = []Mutant{
	{
		Name: "the body of a forward can be had again",
		Edits: []Edit{{
			In: "onward.SendOnce", Old: "out.Body, out.GetBody = body, nil",
			New: "out.Body, out.GetBody = body, func() (io.ReadCloser, error) { return body, nil }",
		}},
		Tests: in("gateway", "TestNeverSentTwiceByNetHTTP"),
	},
}
