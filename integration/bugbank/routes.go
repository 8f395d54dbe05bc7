package bugbank

// routeMutants are bugs of what a route says as data: what is compared, which keys it takes, what is not stored, and what a replay adds.
var routeMutants = []Mutant{
	{
		Name:  "a value that is missing is null",
		Edits: []Edit{{In: "(*rule).ofJSON", Old: "l.add(values...)", New: `l.add(append(values, "null")[0])`}},
		Tests: in("oncehttp", "TestCompare"),
	},
	{
		Name:  "a body that has none of the values is not compared",
		Edits: []Edit{{In: "(*rule).ofJSON", Old: "if !found {", New: "if !found && len(l) == 0 {"}},
		Tests: in("oncehttp", "TestCompare"),
	},
	{
		Name:  "a form that has none of the fields is not compared",
		Edits: []Edit{{In: "(*rule).ofForm", Old: "if !found {", New: "if !found && len(l) == 0 {"}},
		Tests: in("oncehttp", "TestCompare"),
	},
	{
		Name:  "of two members of one name the pointer means the first",
		Edits: []Edit{{In: "(*finder).object", Old: "f.oneReading = f.oneReading && !seen[name]", New: ""}},
		Tests: in("oncehttp", "TestCompare"),
	},
	{
		Name:  "a query that cannot be read is not compared",
		Edits: []Edit{{In: "(*rule).fingerprint", Old: "len(ru.query) > 0 && err == nil", New: "len(ru.query) > 0 && (err == nil || values != nil)"}},
		Tests: in("oncehttp", "TestCompare"),
	},
	{
		Name:  "the values of one header have no boundaries",
		Edits: []Edit{{In: "(*rule).fingerprint", Old: "l.add(values...)\n}\nl.add(\"query\")", New: "l.add(append(values, \"\")[0])\n}\nl.add(\"query\")"}},
		Tests: in("oncehttp", "TestCompare"),
	},
	{
		Name:  "fingerprints of two rules are compared",
		Edits: []Edit{{In: "fingerprint.Differ", Old: "a[0] == ruled", New: "a[0] == version1"}},
		Tests: in("oncehttp", "TestAnotherCompare"),
	},
	{
		Name:  "the order of names makes another rule",
		Edits: []Edit{{In: "(*Compare).compile", Old: "texts := sorted(l.texts)", New: "texts := l.texts"}},
		Tests: in("oncehttp", "TestAnotherCompare"),
	},
	{
		Name:  "a retry under another rule does not take leased work over",
		Edits: []Edit{{In: "lease.(*Store).takesOver", Old: "fingerprint.Differ(rec.Fingerprint, asked)", New: "string(rec.Fingerprint) != string(asked) || fingerprint.Differ(nil, nil)"}},
		Tests: in("oncehttp", "TestLeasedWorkUnderAnotherCompare"),
	},
	{
		Name:  "a new key is safe in place of one that has not the form",
		Edits: []Edit{{In: "(*KeyFormat).check", Old: "MayBeUsed: true", New: "MayBeUsed: false"}},
		Tests: in("oncehttp", "TestKeyFormat"),
	},
	{
		Name:  "a UUID in capitals is a UUID",
		Edits: []Edit{{In: "oncehttp.isUUID", Old: "(c < 'a' || c > 'f')", New: "(c < 'a' || c > 'f') && (c < 'A' || c > 'F')"}},
		Tests: in("oncehttp", "TestMangledKeys"),
	},
	{
		Name:  "a key in a form need not have the form",
		Edits: []Edit{{In: "(*plan).checkedKey", Old: "err == nil", New: "err != nil"}},
		Tests: in("oncehttp", "TestKeyFormatInForms"),
	},
	{
		Name:  "a gateway takes any key",
		Edits: []Edit{{In: "(*Route).protected", Old: "KeyFormat: oncehttp.KeyFormat{UUID: r.UUIDKeys},", New: ""}},
		Tests: in("gateway", "TestUUIDKeys"),
	},
	{
		Name:  "an answer that cannot be redacted is stored",
		Edits: []Edit{{In: "(*plan).redacted", Old: "return res, false", New: "return res, true"}},
		Tests: in("oncehttp", "TestRedact"),
	},
	{
		Name:  "the first answer is redacted",
		Edits: []Edit{{In: "(*run).answer", Old: "if a.Result = stored; !fits", New: "rec.body = stored.Body\nif a.Result = stored; !fits"}},
		Tests: in("oncehttp", "TestRedact"),
	},
	{
		Name:  "a replay does not say that it was redacted",
		Edits: []Edit{{In: "(*plan).redacted", Old: "res.Header = append(slices.Clip(res.Header), store.Field{Name: wire.RedactedHeader, Value: strings.Join(gone, \", \")})", New: "_, _, _ = slices.Clip(gone), strings.Join(gone, \"\"), store.Field{}"}},
		Tests: in("oncehttp", "TestRedact"),
	},
	{
		Name:  "the hook on replays changes the answer",
		Edits: []Edit{{In: "(*plan).mayAdd", Old: "return !p.storedHeaders[name] && !p.isAnswerHeader(name)", New: "return true"}},
		Tests: in("oncehttp", "TestOnReplay"),
	},
	{
		Name:  "the request id of the context is not told",
		Edits: []Edit{{In: "(*plan).described", Old: "op.Attempt.RequestID = id", New: "_ = id"}},
		Tests: in("oncehttp", "TestRequestID"),
	},
	{
		Name:  "scripts cannot read what a replay lacks",
		Edits: []Edit{{In: "(Config).CORS", Old: ", wire.RedactedHeader}", New: "}"}},
		Tests: in("oncehttp", "TestPreflight"),
	},
	{
		Name:  "a preflight does not allow the header of the key",
		Edits: []Edit{{In: "(Config).CORS", Old: "allow = append(allow, p.KeyHeaders...)", New: ""}},
		Tests: in("oncehttp", "TestPreflight"),
	},
	{
		Name:  "a document does not say which values are compared",
		Edits: []Edit{{In: "(*route).rules", Old: "if len(chosen) > 0 {", New: "if len(chosen) > 0 && name != \"json\" {"}},
		Tests: in("oncehttp/openapi", "TestDocumentOfARoute"),
	},
	{
		Name:  "the pattern of a UUID has capitals",
		Edits: []Edit{{In: "openapi.formsOf", Old: "[0-9a-f]{12}", New: "[0-9a-fA-F]{12}"}},
		Tests: in("oncehttp/openapi", "TestKeyPatterns"),
	},
}
