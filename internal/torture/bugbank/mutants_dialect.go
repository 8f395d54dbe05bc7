package bugbank

// dialectMutants are bugs of the presets.
var dialectMutants = []Mutant{
	{
		Name:  "a key of Stripe's belongs to a route",
		Edits: []Edit{{File: "oncehttp/stripe.go", Old: "		Route:          func(*http.Request) string { return \"stripe\" },\n", New: ""}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "a stored 500 asks to be retried",
		Edits: []Edit{{File: "oncehttp/answer.go", Old: "status != ignored && code >= 400", New: "status == replayed && code >= 600"}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "failures are stored in stripe-v2",
		Edits: []Edit{{File: "oncehttp/stripe.go", Old: "	p.Verdicts = map[int]Verdict{2: Commit, 3: Commit}\n", New: ""}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "canonical JSON folds large numbers into each other",
		Edits: []Edit{{File: "oncehttp/canonical.go", Old: "	d.UseNumber()\n", New: ""}},
		Tests: in("oncehttp", "TestCanonicalJSON"),
	},
	{
		Name:  "canonical JSON takes the last of two members",
		Edits: []Edit{{File: "oncehttp/canonical.go", Old: "		case members[i-1].name == m.name:\n			return b, false\n", New: ""}, {File: "oncehttp/canonical.go", Old: "	b = append(b, '{')\n", New: "	b = append(b, '{')\n	members = slices.CompactFunc(members, func(a, b member) bool { return a.name == b.name })\n"}},
		Tests: in("oncehttp", "TestCanonicalJSON"),
	},
	{
		Name:  "another boundary is another request where a dialect reads bodies",
		Edits: []Edit{{File: "oncehttp/operation.go", Old: "	case strings.HasPrefix(contentType, \"multipart/\"):", New: "	case p.preset.Body == nil && strings.HasPrefix(contentType, \"multipart/\"):"}},
		Tests: in("oncehttp", "TestParsedWithoutReading"),
	},
}
