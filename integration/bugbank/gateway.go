package bugbank

// gatewayMutants forward a request twice, or tell of a forward what is not known.
var gatewayMutants = []Mutant{
	{
		Name: "a receipt that is absent passes for a tombstone",
		Edits: []Edit{{
			In: "gateway.(*forward).settle", Old: "r, err := f.rt.g.cfg.Receipts.Settle(ctx, operation)",
			New: "r, found, err := f.rt.g.cfg.Receipts.Look(ctx, operation)\nr.Tombstone = r.Tombstone || !found",
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
		Name: "the body of a forward can be had again",
		Edits: []Edit{{
			In: "onward.SendOnce", Old: "out.Body, out.GetBody = body, nil",
			New: "out.Body, out.GetBody = body, func() (io.ReadCloser, error) { return body, nil }",
		}},
		Tests: in("gateway", "TestNeverSentTwiceByNetHTTP"),
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
		Tests: in("gateway", "TestGRPC"),
	},
	{
		Name:  "an answer that was cut off looks whole",
		Edits: []Edit{{In: "gateway.(*answer).abortIfCut", Old: "a.cut", New: "a.cut && !a.streamed"}},
		Tests: in("gateway", "TestStreams"),
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
		Edits: []Edit{{In: "gateway.cleanPath", Old: `path.Clean("/" + p)`, New: "p"}},
		Tests: in("gateway", "TestUncleanPathsAreTheSameRoute"),
	},
	{
		Name:  "each caller of what is unknown asks",
		Edits: []Edit{{In: "lease.(*Store).asks", Old: "ago >= s.cfg.AskEvery ||", New: "ago >= 0 ||"}},
		Tests: in("lease", "TestCallersAsk"),
	},
	{
		Name: "a Completer that only asks goes on with what was voided",
		Edits: []Edit{
			{In: "lease.(*completing).resume", Old: "case c.AskOnly && !s.Call.checks(time.Now()):", New: "case c.AskOnly && s.Call != nil && !s.Call.Check:"},
			{In: "lease.(*completing).round", Old: "e.State != store.StateUnknown && !e.CallStarted", New: "e.CallStarted && !e.CallStarted"},
		},
		Tests: in("lease", "TestCompleterAsksOnly"),
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
		Name:  "a service is asked about what it has forgotten",
		Edits: []Edit{{In: "lease.(*intent).checks", Old: "c.isYounger(c.CheckFor, now)", New: "true"}},
		Tests: in("lease", "TestForgottenCallsAreNotAsked"),
	},
	{
		Name:  "a service is asked for as long as it promised once",
		Edits: []Edit{{In: "lease.(*call).find", Old: "!r.saved.Call.isYounger(sure(c.policy.CheckedFor), now)", New: "false"}},
		Tests: in("lease", "TestForgottenCallsAreNotAsked"),
	},
	{
		Name:  "a late owner of what can be asked about is told that nothing tells its outcome",
		Edits: []Edit{{In: "lease.(*Run).standing", Old: "r.saved.Call.checks(time.Now())", New: "errors.Is(cause, errAsked)"}},
		Tests: in("lease", "TestLateOwnerIsToldToAskAgain"),
	},
	{
		Name:  "a duplicate is told that nothing tells the outcome, while the late owner may store it",
		Edits: []Edit{{In: "once.(*call).found", Old: "rec.CallStarted && !c.e.irrevocable", New: "rec.CallStarted"}},
		Tests: in("lease", "TestLateOwnerAnswersItsDuplicate"),
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
		Edits: []Edit{{In: "gateway.(*Gateway).routeFor", Old: "RawPath: r.URL.RawPath", New: ""}},
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
		Name:  "a reload takes over a change that needs a restart",
		Edits: []Edit{{In: "gateway.(*proxy).reload", Old: "cfg.unchanged(p.current.Load().cfg, src)", New: "cfg.unchanged(cfg, src)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestGatewayReload"}},
	},
	{
		Name: "a reload takes over what is right in a file with a mistake",
		Edits: []Edit{{
			In: "gateway.(*proxy).build", Old: "g.gw, err = makeGateway(gc, src)",
			New: "g.gw, err = makeGateway(gc, src)\nfor err != nil && len(gc.Routes) > 0 {\ngc.Routes, g.guards = gc.Routes[:len(gc.Routes)-1], g.guards[:len(gc.Routes)-1]\ng.gw, err = makeGateway(gc, src)\n}",
		}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestGatewayReload"}},
	},
	{
		Name: "a gateway closes its listener before it says that it is not ready",
		Edits: []Edit{
			{In: "gateway.(*daemon).drain", Old: "d.draining.Store(true)", New: "defer d.draining.Store(true)"},
			{In: "gateway.(*daemon).drain", Old: "<-timer.C", New: ""},
		},
		Tests: []Killer{{Module: "cmd/once", Test: "TestGatewayDrains"}},
	},
	{
		Name:  "the file's header is believed from any address",
		Edits: []Edit{{In: "gateway.(*config).gatewayConfig", Old: "prefixes(c.Principal.TrustedFrom)...", New: "netip.MustParsePrefix(`0.0.0.0/0`), netip.MustParsePrefix(`::/0`)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestGatewayReload"}},
	},
	{
		Name: "the routes of a service share one breaker and one limit",
		Edits: []Edit{{
			In: "gateway.(*guards).get", Old: "g := &guard{id: id, budget: new(retry.Budget)}",
			New: "for _, g := range gs.all {\nreturn g\n}\ng := &guard{id: id, budget: new(retry.Budget)}\ndefer func() { gs.all[id] = g }()",
		}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestSlowRouteDelaysNoOther"}, {Module: "cmd/once", Package: "internal/gateway", Test: "TestSickRouteClosesNoOther"}},
	},
	{
		Name:  "what the breaker refuses has claimed its key and asks the service",
		Edits: []Edit{{In: "gateway.(*guard).Enter", Old: "refused != nil || g.breaker == nil", New: "true || g.breaker == nil"}, {In: "gateway.(*guard).Begin", Old: "g.breaker != nil", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestSickRouteClosesNoOther"}},
	},
	{
		Name:  "a route whose transactions hold their receipts takes those of the others",
		Edits: []Edit{{In: "gateway.(*Gateway).newRoute", Old: "g.cfg.ReceiptsAtOnce/len(g.cfg.Routes)", New: "g.cfg.ReceiptsAtOnce"}},
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
		Edits: []Edit{{In: "gateway.(*Gateway).hides", Old: "strings.ToLower(cleanPath(p))", New: "p"}},
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
		Name:  "a slow client keeps a route closed that is well again",
		Edits: []Edit{{In: "gateway.(*guard).probes", Old: "now-before < int64(openFor)", New: "before != 0"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestSlowProbeKeepsNoRouteClosed"}},
	},
	{
		Name:  "all requests come in when a breaker is half open",
		Edits: []Edit{{In: "gateway.(*guard).probes", Old: "now-before < int64(openFor)", New: "now-before < 0"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestHalfOpenBreaker"}},
	},
	{
		Name:  "without a store nothing is answered while a breaker is open",
		Edits: []Edit{{In: "gateway.(receiptStore).Read", Old: "rec.State = store.StateDone", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestReceiptsAnswerWhileABreakerIsOpen"}},
	},
	{
		Name:  "what is unknown is asked about by its clients alone",
		Edits: []Edit{{In: "gateway.(*proxy).begin", Old: "len(handlers) > 0", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestGatewayAsksByItself", Hangs: true}},
	},
}
