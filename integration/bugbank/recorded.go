package bugbank

// recordedMutants are bugs of package operate/recorded.
var recordedMutants = []Mutant{
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
		Name:  "secrets are exported",
		Edits: []Edit{{In: "recorded.FromCapture", Old: "IsSecret(name) || slices.ContainsFunc(redact, same)", New: "slices.ContainsFunc(redact, same)"}},
		Tests: in("operate/recorded", "TestFileKeepsTheExactRequest"),
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
		Tests: in("operate/recorded", "FuzzParsedRequestCanBeSent"),
	},
}
