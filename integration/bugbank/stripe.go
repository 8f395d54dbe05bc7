package bugbank

// stripeMutants are bugs of package oncehttp/stripe.
var stripeMutants = []Mutant{
	{
		Name:  "a key of Stripe's belongs to a route",
		Edits: []Edit{{In: "stripe.V1", Old: `Route:          func(*http.Request) string { return "stripe" },`, New: ""}},
		Tests: in("oncehttp", "TestDialectsCellByCell"),
	},
	{
		Name:  "failures are stored in stripe-v2",
		Edits: []Edit{{In: "stripe.V2", Old: "p.Verdicts = map[int]oncehttp.Verdict{2: oncehttp.VerdictCommit, 3: oncehttp.VerdictCommit}", New: ""}},
		Tests: in("oncehttp", "TestDialectsCellByCell"),
	},
	{
		Name:  "forms of Stripe's are compared by their bytes",
		Edits: []Edit{{In: "stripe.V1", Old: "Body:           canonical.Form,", New: "Body: canonical.JSON,"}},
		Tests: in("oncehttp", "TestDialectsCellByCell"),
	},
	{
		Name:  "Stripe's request in flight is an idempotency_error",
		Edits: []Edit{{In: "stripe.writeProblem", Old: `d.Code = "idempotency_key_in_use"`, New: `d.Type, d.Code = "idempotency_error", "idempotency_key_in_use"`}},
		Tests: in("oncehttp", "TestDialectsCellByCell"),
	},
	{
		Name:  "Stripe's mismatch has a message of ours",
		Edits: []Edit{{In: "stripe.messageOf", Old: `case p.Code == oncehttp.ProblemMismatch && key != "":`, New: `case p.Code == "" && key != "":`}},
		Tests: in("oncehttp", "TestDialectsCellByCell"),
	},
}
