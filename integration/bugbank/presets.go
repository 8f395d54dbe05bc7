package bugbank

// presetMutants are bugs of the dialects' codes and messages, of what they compare, and of the
// documents that tell of them.
var presetMutants = []Mutant{
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
	{
		Name:  "types of problems do not lead to the pages of the service",
		Edits: []Edit{{In: "(*plan).problemType", Old: `p.preset.ProblemBase != ""`, New: `p.preset.ProblemBase == p.preset.Name`}},
		Tests: in("oncehttp", "TestEachProblemHasAPage"),
	},
	{
		Name:  "a problem names another case",
		Edits: []Edit{{In: "(*Exchange).WriteProblem", Old: "keyname.Hash(x.key)", New: "keyname.Hash(p.Type)"}},
		Tests: in("oncehttp", "TestAProblemNamesItsCase"),
	},
	{
		Name:  "a timeout is told as a store that is away",
		Edits: []Edit{{In: "(*Exchange).timedOut", Old: "errors.Is(err, context.DeadlineExceeded) && (", New: "errors.Is(err, context.Canceled) && ("}},
		Tests: in("oncehttp", "TestPlaybookTaxonomy"),
	},
	{
		Name:  "a deadline of the handler is told as an internal error",
		Edits: []Edit{{In: "(*Exchange).Problem", Old: "e.Code == once.CodeFailed && errors.Is(err, context.DeadlineExceeded)", New: "e.Code == once.CodeFailed && errors.Is(err, context.Canceled)"}},
		Tests: in("oncehttp", "TestADeadlineOfTheHandler"),
	},
	{
		Name:  "a document has the codes of another dialect",
		Edits: []Edit{{In: "openapi.(*route).problemResponse", Old: `object{"code": prob.Code,`, New: `object{"code": prob.Title,`}},
		Tests: in("oncehttp", "TestCodesOfAPreset"),
	},
	{
		Name:  "forms of Stripe's are compared by their bytes",
		Edits: []Edit{{In: "stripe.V1", Old: "Body:           canonical.Form,", New: "Body: canonical.JSON,"}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "the members of a list in a form change places",
		Edits: []Edit{{In: "formParameters", Old: `p.list = p.name[:i+len("[]")]`, New: "p.list = p.name[:max(i, len(p.name))]"}},
		Tests: in("oncehttp/canonical", "TestForm"),
	},
	{
		Name:  "a form in which one name means two things is sorted",
		Edits: []Edit{{In: "markUses", Old: "return before == 0 || before == use", New: "return before == 0 || use > 0"}},
		Tests: in("oncehttp/canonical", "TestForm"),
	},
	{
		Name:  "the order of values of one name in a form does not count",
		Edits: []Edit{{In: "canonical.Form", Old: "return strings.Compare(a.list, b.list)", New: "return strings.Compare(a.list+a.value, b.list+b.value)"}},
		Tests: in("oncehttp/canonical", "TestForm"),
	},
	{
		Name:  "a name deep inside of others costs the square of its length",
		Edits: []Edit{{In: "formParameters", Old: `strings.Count(p.name, "[") > maxParameterDepth`, New: `strings.Count(p.name, "[") > 40*maxParameterDepth`}},
		Tests: in("oncehttp/canonical", "TestForm"),
	},
	{
		Name:  "Stripe's request in flight is an idempotency_error",
		Edits: []Edit{{In: "stripe.writeProblem", Old: `d.Code = "idempotency_key_in_use"`, New: `d.Type, d.Code = "idempotency_error", "idempotency_key_in_use"`}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "Stripe's mismatch has a message of ours",
		Edits: []Edit{{In: "stripe.messageOf", Old: `case p.Code == oncehttp.ProblemMismatch && key != "":`, New: `case p.Code == "" && key != "":`}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "the demo's tenant is the secret key",
		Edits: []Edit{{In: "stripeAccount", Old: `return "acct_" + hex.EncodeToString(sum[:16])`, New: `return "acct_" + secretKey + hex.EncodeToString(sum[:0])`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestServeKeepsNoSecretKey"}},
	},
	{
		Name:  "two templates of one path are two paths",
		Edits: []Edit{{In: "openapi.New", Old: "first, ok := names[shape]; ok", New: "first, ok := names[shape]; ok && first == path"}},
		Tests: in("oncehttp/openapi", "TestPaths"),
	},
	{
		Name:  "a method that OpenAPI does not know is a member of a path",
		Edits: []Edit{{In: "setOperation", Old: "http.MethodDelete, http.MethodPatch:", New: `http.MethodDelete, http.MethodPatch, "QUERY":`}},
		Tests: in("oncehttp/openapi", "TestPaths"),
	},
	{
		Name:  "the demo's document needs authentication",
		Edits: []Edit{{In: "payments.NewServer", Old: "keys.publish(mux,", New: "keys.publish(api,"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestServePublishes"}},
	},
	{
		Name:  "a parameter may have 16 digits",
		Edits: []Edit{{In: "wire.parameters", Old: "number = `-?(?:[0-9]{1,15}|[0-9]{1,12}\\.[0-9]{1,3})`", New: "number = `-?(?:[0-9]{1,16}|[0-9]{1,12}\\.[0-9]{1,3})`"}},
		Tests: in("internal/base/wire", "TestKeyGrammar"),
	},
	{
		Name:  "a parameter may have half of a character",
		Edits: []Edit{{In: "wire.parameters", Old: "`|ed%[89]`", New: "`|ed%[89a]`"}},
		Tests: in("internal/base/wire", "TestKeyGrammar"),
	},
}
