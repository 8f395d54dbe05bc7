package bugbank

// oncehttpMutants are bugs of package oncehttp.
var oncehttpMutants = []Mutant{
	{
		Name:  "an erased answer claims that its operation was executed",
		Edits: []Edit{{In: "oncehttp.(*Exchange).sendStored", Old: "head.IsForgotten(res) || res.RolledBack", New: "false"}},
		Tests: in("oncehttp", "TestForgottenAnswerClaimsNoExecution"),
	},
	{
		Name:  "an undo is refused by a quota",
		Edits: []Edit{{In: "(*Exchange).overQuota", Old: `x.Operation.Key == "" || x.plan.Undoes != ""`, New: `x.Operation.Key == ""`}},
		Tests: in("oncehttp", "TestUndosHaveNoQuota"),
	},
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
		Name:  "Fail says outside of the middleware that nothing was applied",
		Edits: []Edit{{In: "Fail", Old: `p.Retryable, p.Detail = false, "The request has failed. It is not known whether it has taken effect."`, New: ""}},
		Tests: in("oncehttp", "TestFailOutsideOfTheMiddlewareClaimsNothing"),
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
		Name:  "the bodies of requests that wait are not counted",
		Edits: []Edit{{In: "(*Exchange).operation", Old: "op.Attempt.Bytes = body.size", New: ""}},
		Tests: in("oncehttp", "TestBodiesOfWaitersAreBounded"),
	},
	{
		Name:  "the error given to Fail outside of an operation is lost",
		Edits: []Edit{{In: "oncehttp.Fail", Old: `"error", err`, New: `"error", nil`}},
		Tests: in("oncehttp", "TestFailIsLogged"),
	},
	{
		Name:  "an answer that is not stored is told as ignored",
		Edits: []Edit{{In: "(*Exchange).Finish", Old: "status := wire.StatusNotStored", New: "status := wire.StatusIgnored"}},
		Tests: in("oncehttp", "TestNotStored"),
	},
	{
		Name:  "a 401 without a challenge",
		Edits: []Edit{{In: "(*Exchange).WriteProblem", Old: "p.Code == ProblemUnauthenticated && !set", New: "p.Code == ProblemUnauthenticated && set"}},
		Tests: in("oncehttp", "TestChallengeOfA401"),
	},
	{
		Name:  "a client is told that nothing was applied by work that has stopped behind a phase",
		Edits: []Edit{{In: "oncehttp.(*Exchange).Problem", Old: "if e.Effect == once.EffectInDoubt { // phases", New: "if e.Effect == once.EffectApplied { // phases"}},
		Tests: in("oncehttp", "TestLeasedWorkHasStopped"),
	},
	{
		Name:  "a handler that is resumed does not know its client",
		Edits: []Edit{{In: "oncehttp.(*plan).restore", Old: "principal: principal, body: inMemory(body)}", New: "body: inMemory(body)}"}},
		Tests: in("oncehttp", "TestCompleterResumesARoute"),
	},
	{
		Name:  "a request of another route is resumed",
		Edits: []Edit{{In: "oncehttp.(*plan).restore", Old: "if wire.Scope(principal, p.routeOf(r)) != op.Scope {", New: `if op.Scope == "" {`}},
		Tests: in("oncehttp", "TestResumeRefuses"),
	},
	{
		Name:  "a resumed request that no route takes has 404 for good",
		Edits: []Edit{{In: "oncehttp.routed", Old: "h != http.Handler(next)", New: "h == nil"}},
		Tests: in("oncehttp", "TestResumeRefuses"),
	},
	{
		Name:  "a final failure over HTTP can be retried for ever",
		Edits: []Edit{{In: "oncehttp.Fail", Old: "case ok && final != nil:", New: "case ok && err == nil:"}},
		Tests: in("oncehttp", "TestFailWithAFailure"),
	},
	{
		Name:  "the answer of a final failure has headers of the one before",
		Edits: []Edit{{In: "oncehttp.(*run).end", Old: "clear(header)", New: ""}},
		Tests: in("oncehttp", "TestFailWithAFailure"),
	},
	{
		Name:  "the state of an operation is told to another tenant",
		Edits: []Edit{{In: "oncehttp.StatusHandler", Old: "Scope: wire.Scope(principal, route)", New: `Scope: wire.Scope("acme", route)`}},
		Tests: in("oncehttp", "TestStatusBelongsToATenant"),
	},
	{
		Name:  "a client shall ask for what is too large again",
		Edits: []Edit{{In: "(*Exchange).Problem", Old: `errors.As(err, new(*toolarge.Error))`, New: `new(*toolarge.Error) == nil`}},
		Tests: in("oncehttp", "TestAnswerTooLargeForTheDatabase"),
	},
	{
		Name: "401 is stored",
		Edits: []Edit{{
			In:  "DefaultPreset",
			Old: "401: VerdictDiscard,",
			New: "",
		}},
		Tests: in("oncehttp", "TestVerdictsByStatus"),
	},
	{
		Name: "Set-Cookie is stored and replayed to every caller",
		Edits: []Edit{{
			In:  "neverStored",
			Old: `"Set-Cookie"`,
			New: `"Set-Biscuit"`,
		}},
		Tests: in("oncehttp", "TestHeadersThatAreReplayed"),
	},
	{
		Name:  "a stored 500 asks to be retried",
		Edits: []Edit{{In: "(*lines).addOutcome", Old: "status != wire.StatusIgnored && status != wire.StatusNotStored && code >= 400", New: "status == wire.StatusReplayed && code >= 600"}},
		Tests: in("oncehttp", "TestDialectsCellByCell"),
	},
	{
		Name:  "another boundary is another request where a dialect reads bodies",
		Edits: []Edit{{In: "(*Exchange).comparedBody", Old: `case strings.HasPrefix(contentType, "multipart/"):`, New: `case read == nil && strings.HasPrefix(contentType, "multipart/"):`}},
		Tests: in("oncehttp", "TestParsedWithoutReading"),
	},
	{
		Name:  "handlers find no transaction of a test",
		Edits: []Edit{{In: "oncehttp.Tx", Old: "test {", New: "!test {"}},
		Tests: onStrangers("TestAHandlerWithoutItsMiddleware$/^SQLite$"),
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
		Name:  "a value that is missing is null",
		Edits: []Edit{{In: "(*rule).ofJSON", Old: "l.add(values...)", New: `l.add(append(values, "null")[0])`}},
		Tests: in("oncehttp", "TestCompareChosenFields"),
	},
	{
		Name:  "a body that has none of the values is not compared",
		Edits: []Edit{{In: "(*rule).ofJSON", Old: "if !found {", New: "if !found && len(l) == 0 {"}},
		Tests: in("oncehttp", "TestCompareChosenFields"),
	},
	{
		Name:  "a form that has none of the fields is not compared",
		Edits: []Edit{{In: "(*rule).ofForm", Old: "if !found {", New: "if !found && len(l) == 0 {"}},
		Tests: in("oncehttp", "TestCompareChosenFields"),
	},
	{
		Name:  "a query that cannot be read is not compared",
		Edits: []Edit{{In: "(*rule).fingerprint", Old: "len(ru.query) > 0 && err == nil", New: "len(ru.query) > 0 && (err == nil || values != nil)"}},
		Tests: in("oncehttp", "TestCompareChosenFields"),
	},
	{
		Name:  "the values of one header have no boundaries",
		Edits: []Edit{{In: "(*rule).fingerprint", Old: "l.add(values...)\n}\nl.add(\"query\")", New: "l.add(append(values, \"\")[0])\n}\nl.add(\"query\")"}},
		Tests: in("oncehttp", "TestCompareChosenFields"),
	},
	{
		Name:  "the order of names makes another rule",
		Edits: []Edit{{In: "(*Compare).compile", Old: "texts := sorted(l.texts)", New: "texts := l.texts"}},
		Tests: in("oncehttp", "TestAnotherCompare"),
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
		Name:  "an answer that cannot be redacted is stored",
		Edits: []Edit{{In: "(*plan).redacted", Old: "return res, false", New: "return res, true"}},
		Tests: in("oncehttp", "TestRedactKeepsSecretsOutOfReplays"),
	},
	{
		Name:  "the first answer is redacted",
		Edits: []Edit{{In: "(*run).answer", Old: "if a.Result = stored; !fits", New: "rec.body = stored.Body\nif a.Result = stored; !fits"}},
		Tests: in("oncehttp", "TestRedactKeepsSecretsOutOfReplays"),
	},
	{
		Name:  "a replay does not say that it was redacted",
		Edits: []Edit{{In: "(*plan).redacted", Old: "res.Header = append(slices.Clip(res.Header), store.Field{Name: wire.RedactedHeader, Value: strings.Join(gone, \", \")})", New: "_, _, _ = slices.Clip(gone), strings.Join(gone, \"\"), store.Field{}"}},
		Tests: in("oncehttp", "TestRedactKeepsSecretsOutOfReplays"),
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
		Tests: in("oncehttp", "TestPreflightExecutesNothing"),
	},
	{
		Name:  "a preflight does not allow the header of the key",
		Edits: []Edit{{In: "(Config).CORS", Old: "allow = append(allow, p.KeyHeaders...)", New: ""}},
		Tests: in("oncehttp", "TestPreflightExecutesNothing"),
	},
	{
		Name:  "a request that comes after its undo is answered with success",
		Edits: []Edit{{In: "oncehttp.(*Exchange).sendStored", Old: "x.WriteProblem(x.plan.problem(problemUndone))", New: "x.write(http.StatusNoContent, nil)"}},
		Tests: in("oncehttp", "TestUndoRouteComesFirst"),
	},
	{
		Name:  "a request to undo has the key of what it undoes",
		Edits: []Edit{{In: "oncehttp.(*Exchange).ownKey", Old: "return keyname.Undo(x.key)", New: "return keyname.Undo(x.key)[:len(x.key)]"}},
		Tests: in("oncehttp", "TestUndoRouteOfWhatWasExecuted"),
	},
	{
		Name:  "a request to undo looks on its own route for what it undoes",
		Edits: []Edit{{In: "oncehttp.(*Exchange).names", Old: "route = x.plan.Undoes", New: "_ = route"}},
		Tests: in("oncehttp", "TestUndoRouteOfWhatWasExecuted"),
	},
	{
		Name:  "a request undoes an answer that was a no",
		Edits: []Edit{{In: "oncehttp.(*Exchange).findUndone", Old: "case res.RolledBack, res.Kind == store.ResultFailure, res.Status >= 400:", New: "case res.Kind == store.ResultFailure:"}},
		Tests: in("oncehttp", "TestUndoRouteOfARefusal"),
	},
	{
		Name:  "a request undoes what it knows no answer of",
		Edits: []Edit{{In: "oncehttp.(*Exchange).findUndone", Old: "case res.Kind != store.ResultValue:", New: "case res.Kind > store.ResultOmitted:"}},
		Tests: in("oncehttp", "TestUndoRouteOfARefusal"),
	},
	{
		Name:  "an undo that is replayed does not say that it is one",
		Edits: []Edit{{In: "oncehttp.(*lines).addOutcome", Old: "case wire.StatusStored, wire.StatusOmitted, wire.StatusReplayed:", New: "case wire.StatusStored, wire.StatusOmitted:"}},
		Tests: in("oncehttp", "TestUndoRouteOfWhatWasExecuted"),
	},
	{
		Name:  "any key of a request names what it undoes",
		Edits: []Edit{{In: "oncehttp.compile", Old: "p.preset.KeyHeaders, p.Key, p.FormField, p.Optional = []string{wire.UndoesHeader}, nil, \"\", false", New: "p.preset.KeyHeaders = append([]string{wire.UndoesHeader}, p.preset.KeyHeaders...)"}},
		Tests: in("oncehttp", "TestUndoRouteNeedsItsHeader"),
	},
	{
		Name: "the second bank takes back what a request says, also if it was never made",
		Edits: []Edit{{In: "oncehttp.(*Route).Read", Old: `return x, rt.plan.Undoes == "" || op.Key == "" || x.findUndone()`, New: `x.undoes = &store.Result{Status: 201, Body: x.body.memory}
return x, true`}},
		Tests: in("oncehttp", "TestUndoRouteComesFirst"),
	},
	{
		Name:  "the query is not compared",
		Edits: []Edit{{In: "(*Exchange).fingerprint", Old: "r.URL.RawQuery, contentType}", New: `"", contentType}`}},
		Tests: in("oncehttp", "TestMismatchOfEachPart"),
	},
	{
		Name:  "the path is not compared",
		Edits: []Edit{{In: "(*Exchange).fingerprint", Old: "route, path, r.URL.RawQuery, contentType}", New: "route, path[:0], r.URL.RawQuery, contentType}"}},
		Tests: in("oncehttp", "TestMismatchOfEachPart"),
	},
	{
		Name:  "the content type is not compared",
		Edits: []Edit{{In: "(*Exchange).fingerprint", Old: "r.URL.RawQuery, contentType}", New: `r.URL.RawQuery, ""}`}},
		Tests: in("oncehttp", "TestMismatchOfEachPart"),
	},
	{
		Name:  "whatever the configuration lists is stored",
		Edits: []Edit{{In: "compile", Old: "p.storedHeaders[name] = !neverStored(name)", New: "p.storedHeaders[name] = true"}},
		Tests: in("oncehttp", "TestHeadersThatAreReplayed"),
	},
	{
		Name:  "credentials that an earlier version has stored are replayed",
		Edits: []Edit{{In: "(*Exchange).sendStored", Old: "if !neverStored(http.CanonicalHeaderKey(f.Name)) {", New: `if f.Name != "" {`}},
		Tests: in("oncehttp", "TestStoredCredentialsStay"),
	},
	{
		Name:  "500 is stored",
		Edits: []Edit{{In: "DefaultPreset", Old: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictAnswerOnly,", New: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictAnswerOnly, 5: VerdictAnswerOnly,"}},
		Tests: in("oncehttp", "TestVerdictsByStatus"),
	},
	{
		Name:  "the writes of a 4xx are kept",
		Edits: []Edit{{In: "DefaultPreset", Old: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictAnswerOnly,", New: "2: VerdictCommit, 3: VerdictCommit, 4: VerdictCommit,"}},
		Tests: in("oncehttp", "TestVerdictsByStatus"),
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
		Tests: in("oncehttp", "TestUnauthenticatedRequestsAskNoStore"),
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
