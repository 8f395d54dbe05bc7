package bugbank

// logMutants are bugs of logs, and of requests that are replayed elsewhere.
var logMutants = []Mutant{
	{
		Name:  "warnings are sampled",
		Edits: []Edit{{In: "once.(logObserver).Observe", Old: "level < slog.LevelWarn && !o.samples(e)", New: "level <= slog.LevelWarn && !o.samples(e)"}},
		Tests: in("", "TestSampledLogKeepsWarnings"),
	},
	{
		Name:  "the lines of a key are sampled one by one",
		Edits: []Edit{{In: "once.(logObserver).samples", Old: "err != nil", New: "err != nil || n > 0"}},
		Tests: in("", "TestSampledLogKeepsWarnings"),
	},
	{
		Name:  "a replay is logged with the trace of the call that has executed",
		Edits: []Edit{{In: "once.(*call).named", Old: "traceparent.TraceID(c.report.trace)", New: "traceparent.TraceID(e.Trace + c.report.trace)"}},
		Tests: in("", "TestLogTellsTheCallAndWhatItReplays"),
	},
	{
		Name:  "an attribute is not in the table of the docs",
		Edits: []Edit{{In: "once.(logObserver).Observe", Old: `text("idempotency_key", e.KeyHash)`, New: `text("key_hash", e.KeyHash)`}},
		Tests: in("", "TestLogAttributesAreThoseOfTheTable"),
	},
	{
		Name:  "a first attempt has no name in the log of the server",
		Edits: []Edit{{In: "pgxstore.(*firstAttempt).unbounded", Old: "f.s.queueName(&b, f.opts.ID)", New: ""}},
		Tests: []Killer{{Module: "store/pgxstore", Package: "", Test: "TestEveryTransactionIsNamed"}},
	},
	{
		Name:  "the name of a transaction outlives it",
		Edits: []Edit{{In: "pgsql.Name", Old: "$1, true)", New: "$1, false)"}},
		Tests: []Killer{{Module: "store/pgxstore", Package: "", Test: "TestEveryTransactionIsNamed"}},
	},
	{
		Name:  "the key of a hash is looked for on one page",
		Edits: []Edit{{In: "operate.(*Keys).FindHash", Old: `f.After == ""`, New: `f.After == "" || len(p.Items) > 0`}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestKeysListFindsHashes"}},
	},
	{
		Name:  "headers with a one-time password are exported",
		Edits: []Edit{{In: "recorded.IsSecret", Old: "return slices.Contains(secretWords, word)", New: "return word == secrets[0]"}},
		Tests: in("operate/recorded", "TestSecretsAreLeftOut"),
	},
	{
		Name:  "a redirect is taken for an execution",
		Edits: []Edit{{In: "outcomeOf", Old: "resp.StatusCode < 300", New: "resp.StatusCode < 400"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestReplaySendsExactBytes"}},
	},
	{
		Name:  "a replay prints the names of a file as they are",
		Edits: []Edit{{In: "keys.(*replay).Run", Old: "words.Shown(name), words.Quoted(words.Shown(name)+\": ...\")", New: "name, name"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestReplayPrintsNoEscapes"}},
	},
	{
		Name:  "secrets are exported",
		Edits: []Edit{{In: "recorded.FromCapture", Old: "IsSecret(name) || slices.ContainsFunc(redact, same)", New: "slices.ContainsFunc(redact, same)"}},
		Tests: in("operate/recorded", "TestFileKeepsTheExactRequest"),
	},
	{
		Name:  "others can read an exported request",
		Edits: []Edit{{In: "writeNew", Old: "0o600", New: "0o644"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestExportLeavesSecretsOut"}},
	},
	{
		Name:  "an export is not audited",
		Edits: []Edit{{In: "keys.(*export).Run", Old: `looked(ctx, m, db, c.who, operate.Access{Scope: op.Scope, Key: op.Key, Detail: "its request, exported"})`, New: "_ = operate.Access{}"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestExportLeavesSecretsOut"}},
	},
	{
		Name:  "a request is sent again to the host that has recorded it, by its address",
		Edits: []Edit{{In: "recorded.(*Request).CameFrom", Old: "slices.ContainsFunc(here, func(ip netip.Addr) bool { return slices.Contains(there, ip) })", New: "len(here) > 0 && len(there) == 0"}},
		Tests: in("operate/recorded", "TestCameFrom"),
	},
	{
		Name:  "a replay is not marked",
		Edits: []Edit{{In: "recorded.(*Request).HTTP", Old: "req.Header.Set(ReplayHeader, r.ID)", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestReplaySendsExactBytes"}},
	},
	{
		Name:  "a replay follows redirects",
		Edits: []Edit{{In: "recorded.(*Request).Replay", Old: "return http.ErrUseLastResponse", New: "return nil"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestReplaySendsExactBytes"}},
	},
	{
		Name:  "the path of a replay is escaped anew",
		Edits: []Edit{{In: "recorded.exactly", Old: "u.RequestURI() == path", New: "err == nil"}},
		Tests: in("operate/recorded", "FuzzParse"),
	},
}
