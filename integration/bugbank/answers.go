package bugbank

// answerMutants are bugs of what a client is told: of its key, of what was applied, and of
// which request an answer belongs to.
var answerMutants = []Mutant{
	{
		Name:  "a new key is safe if one header cannot be used",
		Edits: []Edit{{In: "(*plan).headerKey", Old: "&wire.KeyError{Detail: unusable.Detail, MayBeUsed: carried || key != \"\"}", New: "unusable"}},
		Tests: in("oncehttp", "TestAnUnusableKeyBesideAnother"),
	},
	{
		Name:  "a new key is safe although the form is not read yet",
		Edits: []Edit{{In: "(*plan).headerKey", Old: `p.FormField != "" && r.ContentLength != 0`, New: "false"}},
		Tests: in("oncehttp", "TestAnUnusableKeyBesideAnother"),
	},
	{
		Name:  "a new key is safe for a form that is cut off",
		Edits: []Edit{{In: "(*plan).keyMayBeInForm", Old: "return err != nil", New: "return err == nil && p.preset.QuotedKeys"}},
		Tests: in("oncehttp", "TestAFormThatIsCutOff"),
	},
	{
		Name:  "the path that was sent is not compared",
		Edits: []Edit{{In: "pathOf", Old: `return sent.EscapedPath() + " " + path`, New: "return path"}},
		Tests: in("oncehttp", "TestStripPrefix"),
	},
	{
		Name:  "a path that is sent unescaped has another fingerprint than before",
		Edits: []Edit{{In: "pathOf", Old: "err != nil || sent.EscapedPath() == path", New: "err != nil"}},
		Tests: in("oncehttp", "TestFingerprintsOfPathsStay"),
	},
	{
		Name:  "a nested Config has no effect",
		Edits: []Edit{{In: "(*server).nested", Old: `field != ""`, New: `field == "-"`}},
		Tests: in("oncehttp", "TestNestedConfigThatDiffers"),
	},
	{
		Name:  "the Config of a nested interceptor has no effect",
		Edits: []Edit{{In: "(*Server).Nested", Old: `field != ""`, New: `field == "-"`}},
		Tests: []Killer{{Module: "oncegrpc", Test: "TestNestedInterceptors"}},
	},
	{
		Name:  "two functions are one because their code is",
		Edits: []Edit{{In: "nested.equal", Old: "same(reflect.ValueOf(a.Interface()), reflect.ValueOf(b.Interface()))", New: "a.Pointer() == b.Pointer()"}},
		Tests: in("internal/base/nested", "TestDifference"),
	},
	{
		Name:  "Fail says outside of the middleware that nothing was applied",
		Edits: []Edit{{In: "Fail", Old: `p.Retryable, p.Detail = false, "The request has failed. It is not known whether it has taken effect."`, New: ""}},
		Tests: in("oncehttp", "TestFailOutsideOfTheMiddlewareClaimsNothing"),
	},
	{
		Name:  "an answer whose writes were rolled back is applied",
		Edits: []Edit{{In: "once.(*call).run", Old: "a.Result.RolledBack = true", New: "_ = a"}},
		Tests: in("oncehttp", "TestAppliedMeansThatTheWritesStand"),
	},
	{
		Name:  "a replayed failure has lost that its writes were kept",
		Edits: []Edit{{In: "once.decode", Old: "final.CommitWrites = v.effect() == EffectApplied", New: "final.CommitWrites = false"}},
		Tests: in("store/memstore", "TestConformance$/^Engine$/^Failure$"),
	},
	{
		Name:  "forgetting an answer forgets that its writes were rolled back",
		Edits: []Edit{{In: "(Operation).forgottenHead", Old: "return head.Encode(&store.Result{RolledBack: true})", New: "return nil"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestKeysShowTellsWhatStands"}},
	},
	{
		Name:  "a handler can say that its writes were rolled back",
		Edits: []Edit{{In: "neverStored", Old: `"Content-Length", "Date", head.Mark:`, New: `"Content-Length", "Date", "X-" + head.Mark:`}},
		Tests: in("oncehttp", "TestTheMarkCannotBeForged"),
	},
	{
		Name:  "a body that was read is compared as empty",
		Edits: []Edit{{In: "bodyWasRead", Old: "r.ContentLength > 0", New: "r.ContentLength < 0"}},
		Tests: in("oncehttp", "TestABodyThatWasRead"),
	},
	{
		Name:  "the encoding of the layer outside is stored",
		Edits: []Edit{{In: "(*recorder).handlerEncoding", Old: "n == 0", New: "n >= 0"}},
		Tests: in("oncehttp", "TestCompressionOutside"),
	},
	{
		Name:  "a replay takes the encoding of the layer outside away",
		Edits: []Edit{{In: "(*Exchange).sendStored", Old: `standard != "Content-Encoding" &&`, New: ""}},
		Tests: []Killer{{Module: "integration", Package: "oncehttp", Test: "TestCompressionOutside"}},
	},
	{
		Name:  "a boundary inside of content separates",
		Edits: []Edit{{In: "withoutBoundary", Old: "opens && followsDelimiter(part)", New: "opens && len(part) >= 0"}},
		Tests: in("oncehttp", "TestBoundaryInsideOfContent"),
	},
	{
		Name:  "a boundary behind a bare LF is not compared",
		Edits: []Edit{{In: "withoutBoundary", Old: "opens = opens && bytes.Count(rest, delimiter[1:]) == len(parts)-1", New: ""}},
		Tests: in("oncehttp", "TestBoundariesAtRandom"),
	},
	{
		Name:  "each level of canonical JSON is moved to a place of its own",
		Edits: []Edit{{In: "(*canonicalizer).sort", Old: "append(c.moved[:0], c.out[begin:]...)", New: "append([]byte(nil), c.out[begin:]...)"}},
		Tests: in("oncehttp/canonical", "TestJSONIsBounded"),
	},
}
