package bugbank

// demoMutants are bugs of package cmd/once/internal/demo.
var demoMutants = []Mutant{
	{
		Name:  "once dev leaves its files",
		Edits: []Edit{{In: "demo.ownFolder", Old: "err := os.RemoveAll(dir)", New: "err := error(nil)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDevServesUntilOneSignal"}},
	},
	{
		Name:  "once dev leaves the files of a process that was killed",
		Edits: []Edit{{In: "demo.ownFolder", Old: "_ = os.RemoveAll(filepath.Dir(lock))", New: "_ = lock"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDevServesUntilOneSignal"}},
	},
	{
		Name:  "the demo's services write no receipts",
		Edits: []Edit{{In: "demo.(*gateways).front", Old: "policy == gateway.PolicyCheck, log", New: "false, log"}},
		Tests: []Killer{{Module: "cmd/once", Package: ".", Test: "TestDemoGatewayShort"}},
	},
	{
		Name:  "the demo's service counts nothing",
		Edits: []Edit{{In: "demo.(*serve).observe", Old: "append(observers, counted)", New: "append(observers, once.Discard)"}},
		Tests: []Killer{{Module: "cmd/once", Package: ".", Test: "TestServeMetrics"}},
	},
	{
		Name:  "the warehouse of the demo is not measured",
		Edits: []Edit{{In: "demo.(*serve).observe", Old: "watch.Add(w.sources()...)", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestEveryPanelHasDataInTheDemo"}},
	},
}
