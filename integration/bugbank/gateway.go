package bugbank

// gatewayMutants are bugs of package gateway.
var gatewayMutants = []Mutant{
	{
		Name: "a receipt that is absent passes for a tombstone",
		Edits: []Edit{{
			In: "gateway.(*forward).settle", Old: "settle := f.rt.g.cfg.Receipts.Settle",
			New: "settle := func(ctx context.Context, operation string) (Receipt, error) {\nr, found, err := f.rt.g.cfg.Receipts.Look(ctx, operation)\nr.Tombstone = r.Tombstone || !found\nreturn r, err\n}",
		}},
		Tests: []Killer{{Module: "integration", Package: "gateway", Test: "TestServiceDies$/^check$/^SQLite$"}},
	},
	{
		Name:  "a service's 409 is believed before its receipt was read",
		Edits: []Edit{{In: "gateway.(*answer).doubted", Old: "|| a.said == http.StatusConflict", New: ""}},
		Tests: in("gateway", "TestReceiptIsBelieved"),
	},
	{
		Name:  "a 503 is stored as the answer of the service",
		Edits: []Edit{{In: "gateway.classOf", Old: "http.StatusServiceUnavailable,", New: ""}},
		Tests: in("gateway", "TestClassesHTTP1"),
	},
	{
		Name:  "a 503 frees the key",
		Edits: []Edit{{In: "gateway.classOf", Old: "statusClosed: return classUnknown", New: "statusClosed: return classRefused"}},
		Tests: in("gateway", "TestClassesHTTP1"),
	},
	{
		Name:  "a request that the kernel took passes for one that was not sent",
		Edits: []Edit{{In: "gateway.(*sending).isNotSent", Old: "return s.conn.seal(s.before)", New: "return s.conn.seal(s.before) || !s.reused"}},
		Tests: in("gateway", "TestBytesThatTheKernelTook"),
	},
	{
		Name:  "any error of a stream passes for one that was not sent",
		Edits: []Edit{{In: "gateway.(*sending).isNotSent", Old: "return notOnHTTP2.MatchString(err.Error())", New: "return true"}},
		Tests: in("gateway", "TestClassesHTTP2"),
	},
	{
		Name:  "callers share their keys at the gateway",
		Edits: []Edit{{In: "gateway.HeaderPrincipal", Old: "return lines[0]", New: `return "caller"`}},
		Tests: in("gateway", "TestCallersAreApart"),
	},
	{
		Name:  "a client speaks for the gateway",
		Edits: []Edit{{In: "gateway.(*Gateway).address", Old: "stripOwn(p.Out.Header)", New: ""}},
		Tests: in("gateway", "TestClientsCannotSpeakForTheGateway"),
	},
	{
		Name:  "a client speaks for the gateway with an underscore",
		Edits: []Edit{{In: "gateway.isOwn", Old: "!isAlphanumeric(name[len(prefix)])", New: "name[len(prefix)] == '-'"}},
		Tests: in("gateway", "TestClientsCannotSpeakForTheGateway"),
	},
	{
		Name:  "the identity of a caller is believed from any address",
		Edits: []Edit{{In: "gateway.HeaderPrincipal", Old: "len(lines) != 1 || !isFrom(r.RemoteAddr, trusted)", New: "len(lines) != 1"}},
		Tests: in("gateway", "TestCallersAreApart"),
	},
	{
		Name:  "a body that ends with its connection is stored as whole",
		Edits: []Edit{{In: "gateway.(*forward).sendOn", Old: "(a.cut || onward.IsCloseDelimited(resp))", New: "a.cut"}},
		Tests: in("gateway", "TestClassesHTTP1"),
	},
	{
		Name:  "the grpc-status is ignored",
		Edits: []Edit{{In: "gateway.(*forward).sendOn", Old: "isGRPC(a.header) && a.Status == http.StatusOK", New: "isGRPC(a.header) && a.Status == 0"}},
		Tests: in("gateway", "TestGRPCStatusDecides"),
	},
	{
		Name:  "an answer that was cut off looks whole",
		Edits: []Edit{{In: "gateway.(*answer).abortIfCut", Old: "a.cut", New: "a.cut && !a.streamed"}},
		Tests: in("gateway", "TestStreamsReachTheFirstCaller"),
	},
	{
		Name:  "connections to the service are kept longer than it keeps them",
		Edits: []Edit{{In: "gateway.newTransport", Old: "IdleConnTimeout: cfg.Idle", New: "IdleConnTimeout: time.Hour"}},
		Tests: in("gateway", "TestIdleConnections"),
	},
	{
		Name:  "without a store, the receipt of another request is the answer",
		Edits: []Edit{{In: "gateway.(*forward).isOfAnother", Old: "r.Fingerprint != f.fingerprint", New: "f.fingerprint == \"\""}},
		Tests: in("gateway", "TestReceiptsAlone"),
	},
	{
		Name:  "services that share a store share their keys",
		Edits: []Edit{{In: "gateway.(*Gateway).named", Old: `g.cfg.Name + " " + pattern`, New: `pattern`}},
		Tests: in("gateway", "TestServicesShareAStore"),
	},
	{
		Name:  "a path that the service cleans is a way around the key",
		Edits: []Edit{{In: "gateway.readings", Old: `u.RawPath == "" && strings.HasPrefix(u.Path, "/") &&`, New: `u.Path != "" ||`}},
		Tests: in("gateway", "TestUncleanPathsAreTheSameRoute"),
	},
	{
		Name:  "a receipt that was swept before it was asked for is taken for one that never was",
		Edits: []Edit{{In: "gateway.(*forward).policy", Old: "CheckedFor: f.rt.g.cfg.ReceiptsKept,", New: ""}},
		Tests: in("gateway", "TestSweptReceiptDoesNotExecuteAgain"),
	},
	{
		Name:  "a retry executes again after its receipt was swept",
		Edits: []Edit{{In: "gateway.(*forward).isForgotten", Old: "!first.IsZero() &&", New: "first.IsZero() &&"}},
		Tests: in("gateway", "TestOldRetryOfReceiptsAlone"),
	},
	{
		Name:  "an answer of gRPC that is cut off before its status is a success",
		Edits: []Edit{{In: "gateway.statusOfGRPC", Old: "err != nil { return http.StatusBadGateway", New: "err != nil { return http.StatusOK"}},
		Tests: in("gateway", "TestCutAtEveryByteHTTP2"),
	},
	{
		Name:  "the gateway keeps the body of a request in memory",
		Edits: []Edit{{In: "gateway.(*Route).protected", Old: "MaxMemory: min(maxMemory, r.MaxRequest)", New: "MaxMemory: r.MaxRequest"}},
		Tests: []Killer{{Module: "integration", Package: "gateway", Test: "TestMemoryIsFlat"}},
	},
	{
		Name:  "without a store, hashed keys have other receipts",
		Edits: []Edit{{In: "gateway.(*forward).withReceipts", Old: "id := f.rt.g.id(op)", New: "id := store.ID{Scope: op.Scope, Key: op.Key}"}},
		Tests: in("gateway", "TestModesShareReceipts"),
	},
	{
		Name:  "a path with an encoded slash is another route's",
		Edits: []Edit{{In: "gateway.readings", Old: "RawPath: u.RawPath", New: ""}, {In: "gateway.readings", Old: "u.EscapedPath()", New: "u.Path"}},
		Tests: in("gateway", "TestEncodedSlash"),
	},
	{
		Name:  "the cookies of a receipt are told to every caller",
		Edits: []Edit{{In: "gateway.(*route).ofReceipt", Old: "header: rt.kept(r.Header)", New: "header: r.Header.Clone()"}},
		Tests: in("gateway", "TestDuplicatesOfReceipts"),
	},
	{
		Name:  "what is unknown on a route without a method is never asked about",
		Edits: []Edit{{In: "gateway.(*Gateway).Handlers", Old: "handlers[g.named(method, rt.Pattern)] = ask", New: "handlers[rt.Pattern] = ask\n_ = method"}},
		Tests: in("gateway", "TestHandlersOfEachMethod"),
	},
	{
		Name:  "a route whose transactions hold their receipts takes those of the others",
		Edits: []Edit{{In: "gateway.(*Gateway).share", Old: "g.cfg.ReceiptsAtOnce/n", New: "g.cfg.ReceiptsAtOnce+0*n"}},
		Tests: in("gateway", "TestSickRouteTakesNoReceipts"),
	},
	{
		Name:  "an answer that was too large to be stored is not looked for in its receipt",
		Edits: []Edit{{In: "gateway.(*forward).finish", Old: "f.omitted(rec)", New: "f.x.Finish(rec, replayed, nil)"}},
		Tests: in("gateway", "TestOmittedAnswerIsInTheReceipt"),
	},
	{
		Name:  "a client that sends a part of its body keeps its place",
		Edits: []Edit{{In: "gateway.(*route).serve", Old: "time.Now().Add(rt.BodyTimeout)", New: "time.Time{}"}},
		Tests: []Killer{{Package: "gateway", Test: "TestSlowClientsLeaveTheirPlace", Hangs: true}},
	},
	{
		Name:  "a client that reads nothing keeps its place",
		Edits: []Edit{{In: "gateway.(*client).Write", Old: "time.Now().Add(c.timeout)", New: "time.Time{}"}},
		Tests: []Killer{{Package: "gateway", Test: "TestSlowClientsLeaveTheirPlace", Hangs: true}},
	},
	{
		Name:  "a stream whose service is silent is cut",
		Edits: []Edit{{In: "gateway.(*client).FlushError", Old: "defer c.end()", New: ""}},
		Tests: in("gateway", "TestSilentStreamGoesOn"),
	},
	{
		Name:  "a client that has gone from a stream keeps its place",
		Edits: []Edit{{In: "gateway.(*forward).stream", Old: "f.cancel(nil)", New: ""}},
		Tests: []Killer{{Package: "gateway", Test: "TestSlowClientsLeaveTheirPlace", Hangs: true}},
	},
	{
		Name:  "a dead connection of HTTP/2 is used as long as TCP does not notice",
		Edits: []Edit{{In: "gateway.newTransport", Old: "SendPingTimeout: pingTime, PingTimeout: pingTime", New: ""}},
		Tests: in("gateway", "TestDeadConnectionIsNoticed"),
	},
	{
		Name:  "a store that cannot be written is told as a failure of the handler",
		Edits: []Edit{{In: "gateway.(*forward).finish", Old: "f.last == nil && once.CodeOf(err) == once.CodeFailed", New: "f.last == nil && once.CodeOf(err) == once.CodeStale"}},
		Tests: in("gateway", "TestStoreThatCannotBeWritten"),
	},
	{
		Name:  "a forward reads its record before it writes it",
		Edits: []Edit{{In: "gateway.(*route).serve", Old: "x.Operation.Attempt.Number == 0", New: "x.Operation.Attempt.Number < 0"}},
		Tests: in("gateway", "TestForwardIsTwoWrites"),
	},
	{
		Name:  "a client opens a tunnel to the service",
		Edits: []Edit{{In: "gateway.New", Old: `!strings.EqualFold(up[0], "websocket")`, New: `up[0] == ""`}},
		Tests: in("gateway", "TestNoTunnelToTheService"),
	},
	{
		Name:  "clients read receipts and write tombstones at the endpoint of the service",
		Edits: []Edit{{In: "gateway.(*Gateway).hides", Old: "isHidden(p, hidden)", New: "strings.HasPrefix(p, hidden)"}},
		Tests: in("gateway", "TestHiddenPaths"),
	},
	{
		Name:  "a query that passes through loses what package url cannot read",
		Edits: []Edit{{In: "gateway.New", Old: "p.Out.URL.RawQuery = p.In.URL.RawQuery", New: ""}},
		Tests: in("gateway", "TestQueryPassesAsItIs"),
	},
	{
		Name:  "a target without a path is a way around the key",
		Edits: []Edit{{In: "gateway.(*Gateway).ServeHTTP", Old: `r.URL.Opaque != ""`, New: "false"}},
		Tests: in("gateway", "TestTargetWithoutAPath"),
	},
	{
		Name:  "a host with capitals is a way around the key",
		Edits: []Edit{{In: "gateway.(*Gateway).routeFor", Old: `strings.ToLower(strings.TrimSuffix(host, "."))`, New: `strings.TrimSuffix(host, ".")`}},
		Tests: in("gateway", "TestHostsHaveNoCase"),
	},
	{
		Name:  "any client says by which scheme and host it has come",
		Edits: []Edit{{In: "gateway.(*Gateway).address", Old: "trusted && len(said) > 0", New: "len(said) > 0"}},
		Tests: in("gateway", "TestForwardedOfATrustedProxy"),
	},
	{
		Name:  "a retry that cannot be sent tells that its earlier forward was not applied",
		Edits: []Edit{{In: "gateway.(*forward).withReceipts", Old: "f.problem(notKnown)", New: "f.problem(notApplied)"}},
		Tests: in("gateway", "TestNothingIsSaidOfEarlierForwards"),
	},
	{
		Name:  "without a store nothing is answered while a breaker is open",
		Edits: []Edit{{In: "gateway.(receiptStore).Read", Old: "rec.State = store.StateDone", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestReceiptsAnswerWhileABreakerIsOpen"}},
	},
	{
		Name:  "a gateway takes any key",
		Edits: []Edit{{In: "(*Route).protected", Old: "KeyFormat: oncehttp.KeyFormat{UUID: r.UUIDKeys},", New: ""}},
		Tests: in("gateway", "TestUUIDKeys"),
	},
	{
		Name:  "a gateway counts what it stores only when its quota counts again",
		Edits: []Edit{{In: "gateway.(*route).serve", Old: "q != nil && err == nil && !replayed", New: "q != nil && err == nil && replayed"}},
		Tests: in("gateway", "TestQuotaForwardsNothing"),
	},
	{
		Name:  "a gateway without a store accepts a quota that bounds nothing",
		Edits: []Edit{{In: "gateway.(*Config).check", Old: "c.Store == nil && c.Quota != nil", New: "c.Store != nil && c.Store == nil"}},
		Tests: in("gateway", "TestQuotaWithoutAStore"),
	},
	{
		Name:  "a missing receipt proves something before a receipt was seen",
		Edits: []Edit{{In: "gateway.(*witness).trusts", Old: "err != nil || !seen", New: "err != nil || seen && !seen"}},
		Tests: []Killer{{Module: "integration", Package: "gateway", Test: "TestServiceDiesWithoutReceipts$/^SQLite$"}},
	},
	{
		Name:  "a missing receipt of an answered request changes nothing",
		Edits: []Edit{{In: "gateway.(*witness).watch", Old: "default: w.end(witnessMissing, 0)", New: "default: w.end(witnessNew, 0)"}},
		Tests: in("gateway", "TestWithoutReceiptsNothingRunsAgain"),
	},
	{
		Name:  "a missing receipt voids a forward of the time before receipts were seen",
		Edits: []Edit{{In: "gateway.(*forward).policy", Old: "!f.checks", New: "!f.checks && f.witness == nil"}},
		Tests: in("gateway", "TestWithoutReceiptsNothingRunsAgain"),
	},
	{
		Name:  "a restarted gateway has forgotten that a receipt was missing",
		Edits: []Edit{{In: "gateway.(*witness).trusts", Old: "err != nil || missing != nil", New: "err != nil || missing != nil && !seen"}},
		Tests: in("gateway", "TestRestartedGatewayKnowsTheLastReceipt"),
	},
	{
		Name:  "a client that must ask again is told that a person decides",
		Edits: []Edit{{In: "oncehttp.(*Exchange).Problem", Old: "if e.After > 0 {", New: "if p.Retryable = e.After > 0; p.Status == 0 {"}},
		Tests: in("gateway", "TestRetryableUnknownSaysSendAgain"),
	},
	{
		Name:  "a missing receipt counts for a day although one was seen since",
		Edits: []Edit{{In: "gateway.(*witness).tellSeen", Old: "missing != nil && !missing.last", New: "missing != nil && missing.last"}},
		Tests: in("gateway", "TestRestartedGatewayKnowsTheLastReceipt"),
	},
	{
		Name:  "a receipt that is missing again leaves no mark for a day",
		Edits: []Edit{{In: "gateway.(*witness).tellMissing", Old: "i < missingMarks &&", New: "i < 1 &&"}},
		Tests: in("gateway", "TestRestartedGatewayKnowsTheLastReceipt"),
	},
	{
		Name:  "a restarted gateway has forgotten that a receipt was seen",
		Edits: []Edit{{In: "gateway.(*witness).watch", Old: "w.tellSeen(ctx)", New: ""}},
		Tests: in("gateway", "TestWithoutReceiptsNothingRunsAgain"),
	},
	{
		Name:  "receipts that cannot be read are taken for missing ones",
		Edits: []Edit{{In: "gateway.(*witness).watch", Old: "w.end(witnessNew, witnessPause)", New: "w.end(witnessMissing, witnessPause)"}},
		Tests: in("gateway", "TestWitnessCostsOneLook"),
	},
	{
		Name:  "each answer waits for a look at its receipt",
		Edits: []Edit{{In: "gateway.(*witness).watch", Old: "w.end(witnessSeen, witnessEvery)", New: "w.end(witnessSeen, 0)"}},
		Tests: in("gateway", "TestWitnessCostsOneLook"),
	},
	{
		Name:  "a receipt that commits late is not the answer before a receipt of the route was seen",
		Edits: []Edit{{In: "gateway.(*route).serve", Old: "once.CodeOf(err) == once.CodeUnknown && f.ownReceipt(ctx)", New: "once.CodeOf(err) == once.CodeUnknown && f.rt == nil"}},
		Tests: in("gateway", "TestReceiptOfTheKeyDecides"),
	},
	{
		Name:  "a conflict with a forward that still runs is stored as its outcome",
		Edits: []Edit{{In: "gateway.(*forward).call", Old: "atmostonce.IsAgain(ctx) && f.rt.saysRunning(a)", New: "atmostonce.IsAgain(ctx) && f.rt.saysRunning(a) && a == nil"}},
		Tests: []Killer{{Package: "gateway", Test: "TestAConflictOfARepeatedForwardIsNoOutcome"}},
	},
	{
		Name:  "a lost answer to a request without a key is called retryable",
		Edits: []Edit{{In: "gateway.notPassed", Old: "isRepeatable(r.Method)", New: "isRepeatable(r.Method) || r.Method != \"\""}},
		Tests: in("gateway", "TestLostAnswerWithoutAKeyIsNotRetryable"),
	},
	{
		Name:  "a request without a key counts as not sent although the service has received it",
		Edits: []Edit{{In: "gateway.(passing).RoundTrip", Old: "err != nil && s.isNotSent(err)", New: "err != nil"}},
		Tests: in("gateway", "TestLostAnswerWithoutAKeyIsNotRetryable"),
	},
	{
		Name:  "a path parameter is a way around the key",
		Edits: []Edit{{In: "gateway.withoutParameters", Old: "return s", New: "_ = s\nreturn segment"}},
		Tests: in("gateway", "TestNoSpellingIsAWayAround"),
	},
	{
		Name:  "an empty segment before two dots is a way around the key",
		Edits: []Edit{{In: "gateway.readings", Old: "joined(resolve(segments, false))", New: "joined(resolve(segments, true))"}, {In: "gateway.readings", Old: "each(resolve(segments, false), decode)", New: "each(resolve(segments, true), decode)"}},
		Tests: in("gateway", "TestUncleanPathsAreTheSameRoute"),
	},
	{
		Name:  "clients reach the endpoint for receipts if the service resolves dots in its own way",
		Edits: []Edit{{In: "gateway.isHidden", Old: "!strings.Contains(p, \";\") &&", New: "len(p) > 0 ||"}},
		Tests: in("gateway", "TestHiddenPaths"),
	},
	{
		Name:  "a forward after the tombstone of an earlier request counts as a first forward",
		Edits: []Edit{{In: "gateway.(*forward).send", Old: "operation != lease.Key(id.Scope, id.Key, wire.ForwardPhase, 0)", New: "f.last != nil && operation != lease.Key(id.Scope, id.Key, wire.ForwardPhase, 0)"}},
		Tests: in("gateway", "TestBeginKnowsForwardsOfEarlierRequests"),
	},
	{
		Name:  "with hashed keys each forward counts as one after a tombstone",
		Edits: []Edit{{In: "gateway.(*forward).send", Old: "id := f.rt.g.id(f.x.Operation)", New: "id := f.x.Operation"}},
		Tests: in("gateway", "TestBeginKnowsForwardsOfEarlierRequests"),
	},
	{
		Name:  "a gateway with many routes reads more receipts at once than its limit",
		Edits: []Edit{{In: "gateway.New", Old: "make(chan struct{}, cfg.ReceiptsAtOnce)", New: "make(chan struct{}, 1000)"}},
		Tests: in("gateway", "TestReceiptsAtOnceIsALimit"),
	},
	{
		Name:  "routes that read no receipts lower the share of the others",
		Edits: []Edit{{In: "gateway.(*Gateway).share", Old: "g.engine == nil || r.OnUnknown == PolicyCheck", New: "g.engine == nil || r != nil"}},
		Tests: in("gateway", "TestReceiptsAtOnceIsALimit"),
	},
	{
		Name:  "the final answer of fail is JSON for a client of gRPC",
		Edits: []Edit{{In: "gateway.finalUnknown", Old: "grpc: grpc", New: "grpc: false"}},
		Tests: in("gateway", "TestFinalUnknownOfGRPC"),
	},
	{
		Name:  "a path that a service decodes after it has resolved dots is a way around the key",
		Edits: []Edit{{In: "gateway.readings", Old: "[][]string{sent, cut}", New: "[][]string{cut}[1:]"}},
		Tests: in("gateway", "TestUncleanPathsAreTheSameRoute"),
	},
}
