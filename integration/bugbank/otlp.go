package bugbank

// otlpMutants are bugs of package cmd/once/full/internal/otlp.
var otlpMutants = []Mutant{
	{
		Name:  "the demo's service ends before its last spans are sent",
		Edits: []Edit{{In: "otlp.Start", Old: "tracers.Shutdown(ctx)", New: "error(nil)"}},
		Tests: []Killer{{Module: "cmd/once/full", Package: "once", Test: "TestServeSendsOTLP"}},
	},
	{
		Name:  "each failure to send telemetry is logged",
		Edits: []Edit{{In: "otlp.(*exportErrors).Handle", Old: "now.UnixNano() < next", New: "now.UnixNano() < 0"}},
		Tests: []Killer{{Module: "cmd/once/full", Package: "internal/otlp", Test: "TestExportErrorsAreLoggedOnceAMinute"}},
	},
}
