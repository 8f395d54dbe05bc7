package bugbank

// canonicalMutants are bugs of package oncehttp/canonical.
var canonicalMutants = []Mutant{
	{
		Name:  "each level of canonical JSON is moved to a place of its own",
		Edits: []Edit{{In: "(*canonicalizer).sort", Old: "append(c.moved[:0], c.out[begin:]...)", New: "append([]byte(nil), c.out[begin:]...)"}},
		Tests: in("oncehttp/canonical", "TestJSONIsBounded"),
	},
	{
		Name: "canonical JSON folds large numbers into each other",
		Edits: []Edit{{In: "(*canonicalizer).value", Old: "c.out, c.in = append(c.out, c.in[:end]...), c.in[end:]", New: `if f, err := strconv.ParseFloat(string(c.in[:end]), 64); err == nil {
	c.out = strconv.AppendFloat(c.out, f, 'f', -1, 64)
} else {
	c.out = append(c.out, c.in[:end]...)
}
c.in = c.in[end:]`}},
		Tests: in("oncehttp/canonical", "TestJSONThatIsEqual"),
	},
	{
		Name: "canonical JSON takes the last of two members",
		Edits: []Edit{{In: "(*canonicalizer).sort", Old: `if bytes.Equal(name(members[i]), name(members[i+1])) {
return false
}`, New: `if bytes.Equal(name(members[i]), name(members[i+1])) {
	members[i].end, inOrder = members[i].begin, false
}`}},
		Tests: in("oncehttp/canonical", "TestJSONThatIsEqual"),
	},
	{
		Name:  "the members of a list in a form change places",
		Edits: []Edit{{In: "formParameters", Old: `p.list = p.name[:i+len("[]")]`, New: "p.list = p.name[:max(i, len(p.name))]"}},
		Tests: in("oncehttp/canonical", "TestFormsThatAreEqual"),
	},
	{
		Name:  "a form in which one name means two things is sorted",
		Edits: []Edit{{In: "markUses", Old: "return before == 0 || before == use", New: "return before == 0 || use > 0"}},
		Tests: in("oncehttp/canonical", "TestFormsThatAreEqual"),
	},
	{
		Name:  "the order of values of one name in a form does not count",
		Edits: []Edit{{In: "canonical.Form", Old: "return strings.Compare(a.list, b.list)", New: "return strings.Compare(a.list+a.value, b.list+b.value)"}},
		Tests: in("oncehttp/canonical", "TestFormsThatAreEqual"),
	},
	{
		Name:  "a name deep inside of others costs the square of its length",
		Edits: []Edit{{In: "formParameters", Old: `strings.Count(p.name, "[") > maxParameterDepth`, New: `strings.Count(p.name, "[") > 40*maxParameterDepth`}},
		Tests: in("oncehttp/canonical", "TestFormsThatAreEqual"),
	},
}
