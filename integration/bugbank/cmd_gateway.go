package bugbank

// cmdGatewayMutants are bugs of package cmd/once/internal/gateway.
var cmdGatewayMutants = []Mutant{
	{
		Name:  "receipts that no route uses are not told",
		Edits: []Edit{{In: "gateway.(*config).unusedReceipt", Old: "== gateway.PolicyCheck", New: "!= gateway.PolicyCheck"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestReceiptWithoutCheckIsAWarning"}},
	},
	{
		Name:  "a gateway is ready although its store cannot be written",
		Edits: []Edit{{In: "(*daemon).ready", Old: "if err = write(ctx); err == nil {", New: "if err = nil; write(ctx) == nil {"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/gateway", Test: "TestReadinessWritesRarely"}},
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
		Name:  "what is unknown is asked about by its clients alone",
		Edits: []Edit{{In: "gateway.(*proxy).begin", Old: "len(handlers) > 0", New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestGatewayAsksByItself", Hangs: true}},
	},
	{
		Name:  "the quota of the file is not counted",
		Edits: []Edit{{In: "gateway.(*proxy).count", Old: "p.back.quota == nil", New: "p.back.quota != nil"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestGatewayQuota"}},
	},
}
