package bugbank

// httpbrokerMutants are bugs of package broker/httpbroker.
var httpbrokerMutants = []Mutant{
	{
		Name:  "a redirect is followed",
		Edits: []Edit{{In: "httpbroker.Publisher", Old: "return http.ErrUseLastResponse", New: "return nil"}},
		Tests: in("broker/httpbroker", "TestAnswersAreClassified"),
	},
	{
		Name:  "a receiver that is overloaded is taken for one that refuses a message",
		Edits: []Edit{{In: "httpbroker.refused", Old: "if said {\nreturn outbox.Unavailable(retry.After(err, after))\n}", New: "_ = outbox.Unavailable"}},
		Tests: in("broker/httpbroker", "TestAnswersAreClassified"),
	},
}
