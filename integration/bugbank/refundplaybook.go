package bugbank

// refundplaybookMutants are bugs of package oncehttp/refundplaybook.
var refundplaybookMutants = []Mutant{
	{
		Name:  "the playbook's mismatch has a code of ours",
		Edits: []Edit{{In: "refundplaybook.Preset", Old: `oncehttp.ProblemMismatch:         "CONFLICT.idempotency.payload_mismatch",`, New: ""}},
		Tests: in("oncehttp", "TestPlaybookTaxonomy"),
	},
	{
		Name:  "the playbook believes what a handler says of retries",
		Edits: []Edit{{In: "refundplaybook.completed", Old: "p.Retryable = t.retry", New: ""}},
		Tests: in("oncehttp", "TestPlaybookTaxonomy"),
	},
}
