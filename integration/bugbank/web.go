package bugbank

// webMutants are bugs of oncehttp, and of what names operations.
var webMutants = []Mutant{
	{
		Name:  "the query is not compared",
		Edits: []Edit{{In: "(*Exchange).fingerprint", Old: "r.URL.RawQuery, contentType}", New: `"", contentType}`}},
		Tests: in("oncehttp", "TestMismatch"),
	},
	{
		Name:  "the path is not compared",
		Edits: []Edit{{In: "(*Exchange).fingerprint", Old: "route, path, r.URL.RawQuery, contentType}", New: "route, path[:0], r.URL.RawQuery, contentType}"}},
		Tests: in("oncehttp", "TestMismatch"),
	},
	{
		Name:  "the content type is not compared",
		Edits: []Edit{{In: "(*Exchange).fingerprint", Old: "r.URL.RawQuery, contentType}", New: `r.URL.RawQuery, ""}`}},
		Tests: in("oncehttp", "TestMismatch"),
	},
	{
		Name:  "the parts of a fingerprint run into each other",
		Edits: []Edit{{In: "fingerprint.Of", Old: "h.Write(size[:])", New: ""}},
		Tests: in("", "TestFingerprintIsStable"),
	},
	{
		Name:  "a principal can spell the scope of another one",
		Edits: []Edit{{In: "Scope", Old: `url.PathEscape(principal) + " " + route`, New: `principal + " " + route`}},
		Tests: in("oncehttp", "TestScopesDoNotMeet"),
	},
	{
		Name:  "long scopes are the same when they begin alike",
		Edits: []Edit{{In: "Scope", Old: "base64.RawURLEncoding.EncodeToString(h[:])", New: "base64.RawURLEncoding.EncodeToString(h[:0])"}},
		Tests: in("oncehttp", "TestScope"),
	},
	{
		Name:  "parts of a derived key run into each other",
		Edits: []Edit{{In: "escapePart", Old: `":", "%3A",`, New: ""}},
		Tests: in("", "TestDeriveKey"),
	},
	{
		Name:  "a sealed request opens under another key",
		Edits: []Edit{{In: "seal.Label", Old: `[]byte(scope + "\x00" + storedKey)`, New: "[]byte(scope)"}},
		Tests: in("", "TestEncryptionLabelsDiffer"),
	},
	{
		Name:  "whatever the configuration lists is stored",
		Edits: []Edit{{In: "compile", Old: "p.storedHeaders[name] = !neverStored(name)", New: "p.storedHeaders[name] = true"}},
		Tests: in("oncehttp", "TestHeaders"),
	},
	{
		Name:  "credentials that an earlier version has stored are replayed",
		Edits: []Edit{{In: "(*Exchange).sendStored", Old: "if !neverStored(http.CanonicalHeaderKey(f.Name)) {", New: `if f.Name != "" {`}},
		Tests: in("oncehttp", "TestStoredCredentialsStay"),
	},
	{
		Name:  "500 is stored",
		Edits: []Edit{{In: "DefaultPreset", Old: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictAnswerOnly,", New: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictAnswerOnly, 5: VerdictAnswerOnly,"}},
		Tests: in("oncehttp", "TestVerdicts"),
	},
	{
		Name:  "the writes of a 4xx are kept",
		Edits: []Edit{{In: "DefaultPreset", Old: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictAnswerOnly,", New: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictCommit,"}},
		Tests: in("oncehttp", "TestVerdicts"),
	},
	{
		Name:  "of two keys the first one counts",
		Edits: []Edit{{In: "(*plan).lineKey", Old: "if len(lines) != 1 {", New: "if len(lines) == 0 {"}},
		Tests: in("oncehttp", "TestInvalidKey"),
	},
	{
		Name:  "what is too large to be kept executes again",
		Edits: []Edit{{In: "(*run).answer", Old: "a.Result = store.Result{Kind: store.ResultOmitted, Status: rec.status}", New: "return once.Answer{}, errTooLarge"}},
		Tests: in("oncehttp", "TestMaxStored"),
	},
	{
		Name:  "who has a key need not be known",
		Edits: []Edit{{In: "(*Exchange).operation", Old: `if x.principal = p.Principal(r); x.principal == "" {`, New: `if x.principal = p.Principal(r); x.principal == "" && !p.keySent(r) {`}},
		Tests: in("oncehttp", "TestUnauthenticated"),
	},
	{
		Name:  "a body that was looked at is taken for read",
		Edits: []Edit{{In: "(*Exchange).comparedBody", Old: "case len(x.r.PostForm) > 0:", New: "case x.r.PostForm != nil:"}},
		Tests: in("oncehttp", "TestParsedWithoutReading"),
	},
	{
		Name:  "a form whose files cannot be compared is executed",
		Edits: []Edit{{In: "(*Exchange).operation", Old: "if r.MultipartForm != nil {", New: `if r.MultipartForm != nil && r.Method == "" { //`}},
		Tests: in("oncehttp", "TestParsedForm"),
	},
	{
		Name:  "what was not kept is said to be stored",
		Edits: []Edit{{In: "(*run).answer", Old: "r.storedStatus = wire.StatusOmitted", New: "r.storedStatus = wire.StatusStored"}},
		Tests: in("oncehttp", "TestMaxStored"),
	},
	{
		Name:  "an old record takes nosniff away",
		Edits: []Edit{{In: "(*Exchange).sendStored", Old: "&& (!restrictsReader(standard) || hasField(res.Header, standard))", New: ""}},
		Tests: in("oncehttp", "TestGuardsOfOuterMiddleware"),
	},
	{
		Name:  "the name of a request that no router has seen is its path",
		Edits: []Edit{{In: "oncehttp.nameOf", Old: "return name\n}", New: "return name + r.URL.Path\n}"}},
		Tests: in("oncehttp", "TestNameAndTrace"),
	},
	{
		Name:  "a client chooses the name of its request",
		Edits: []Edit{{In: "oncehttp.nameOf", Old: "name := otherMethod", New: "name := r.Method"}},
		Tests: in("oncehttp", "TestNameAndTrace"),
	},
	{
		Name:  "work without a key has no trace",
		Edits: []Edit{{In: "(*Exchange).operation", Old: "default:\nreturn op, nil", New: "default:\nop.Attempt.Trace = \"\"\nreturn op, nil"}},
		Tests: in("oncehttp", "TestNameAndTrace"),
	},
	{
		Name:  "a traceparent whose ids are zero is kept",
		Edits: []Edit{{In: "traceparent.allZero", Old: `strings.Trim(id, "0") == ""`, New: "false"}},
		Tests: in("internal/base/traceparent", "TestParse"),
	},
	{
		Name:  "a traceparent of a later version is kept as it is",
		Edits: []Edit{{In: "traceparent.Parse", Old: `return "00" + trace[traceIDStart-1:parentIDEnd+1] + sampled`, New: "_ = sampled\nreturn value"}},
		Tests: in("internal/base/traceparent", "TestParse"),
	},
	{
		Name:  "of a body in a file the beginning is compared",
		Edits: []Edit{{In: "fingerprintFile", Old: "io.NewSectionReader(file, from, to-from), to-from)", New: "io.NewSectionReader(file, from, to-from), min(to-from, 100))"}},
		Tests: in("oncehttp", "TestABodyInAFile"),
	},
	{
		Name:  "a boundary on the edge of two reads is overlooked",
		Edits: []Edit{{In: "(*multipartFile).find", Old: "max(seen, n-len(text)+1)", New: "max(seen, n)"}},
		Tests: in("oncehttp", "TestABodyInAFile"),
	},
	{
		Name:  "the file of a body has a name",
		Edits: []Edit{{In: "spool", Old: "os.Remove(f.Name()) != nil", New: `f.Name() != ""`}},
		Tests: in("oncehttp", "TestABodyInAFile"),
	},
	{
		Name:  "the file of a body stays open",
		Edits: []Edit{{In: "(*Exchange).Close", Old: "return x.body.close()", New: "return nil"}},
		Tests: in("oncehttp", "TestABodyInAFile"),
	},
	{
		Name:  "a refused request stays behind the gate",
		Edits: []Edit{{In: "(*Route).Read", Old: "if !ok {", New: "if !ok && x == nil {"}},
		Tests: in("oncehttp", "TestReadRefuses"),
	},
	{
		Name:  "a program executes what cannot be compared",
		Edits: []Edit{{In: "(*Route).Read", Old: "case x.incomparable != nil:", New: "case x.incomparable != nil && op.Key != \"\":"}},
		Tests: in("oncehttp", "TestReadRefuses"),
	},
	{
		Name:  "the body of an exchange is read when the request is over",
		Edits: []Edit{{In: "(*Exchange).endBody", Old: "x.sent.end()", New: ""}},
		Tests: in("oncehttp", "TestBodyOfAnExchange"),
	},
}
