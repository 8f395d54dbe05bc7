package bugbank

// dialectMutants are bugs of the presets.
var dialectMutants = []Mutant{
	{
		Name:  "a key of Stripe's belongs to a route",
		Edits: []Edit{{In: "stripe.V1", Old: `Route:          func(*http.Request) string { return "stripe" },`, New: ""}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "a stored 500 asks to be retried",
		Edits: []Edit{{In: "(*lines).addOutcome", Old: "status != wire.StatusIgnored && status != wire.StatusNotStored && code >= 400", New: "status == wire.StatusReplayed && code >= 600"}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name:  "failures are stored in stripe-v2",
		Edits: []Edit{{In: "stripe.V2", Old: "p.Verdicts = map[int]oncehttp.Verdict{2: oncehttp.VerdictCommit, 3: oncehttp.VerdictCommit}", New: ""}},
		Tests: in("oncehttp", "TestDialects"),
	},
	{
		Name: "canonical JSON folds large numbers into each other",
		Edits: []Edit{{In: "(*canonicalizer).value", Old: "c.out, c.in = append(c.out, c.in[:end]...), c.in[end:]", New: `if f, err := strconv.ParseFloat(string(c.in[:end]), 64); err == nil {
	c.out = strconv.AppendFloat(c.out, f, 'f', -1, 64)
} else {
	c.out = append(c.out, c.in[:end]...)
}
c.in = c.in[end:]`}},
		Tests: in("oncehttp/canonical", "TestJSON"),
	},
	{
		Name: "canonical JSON takes the last of two members",
		Edits: []Edit{{In: "(*canonicalizer).sort", Old: `if bytes.Equal(name(members[i]), name(members[i+1])) {
return false
}`, New: `if bytes.Equal(name(members[i]), name(members[i+1])) {
	members[i].end, inOrder = members[i].begin, false
}`}},
		Tests: in("oncehttp/canonical", "TestJSON"),
	},
	{
		Name:  "another boundary is another request where a dialect reads bodies",
		Edits: []Edit{{In: "(*Exchange).comparedBody", Old: `case strings.HasPrefix(contentType, "multipart/"):`, New: `case read == nil && strings.HasPrefix(contentType, "multipart/"):`}},
		Tests: in("oncehttp", "TestParsedWithoutReading"),
	},
}
