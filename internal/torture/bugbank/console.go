package bugbank

// consoleMutants are bugs of package console.
var consoleMutants = []Mutant{
	{
		Name:  "a viewer acts on the console",
		Edits: []Edit{{In: "console.(*request).operator", Old: "q.user.Role != RoleOperator", New: "q.user.Role > RoleOperator"}},
		Tests: console("TestViewersDoNothing"),
	},
	{
		Name:  "another site presses the buttons of the console",
		Edits: []Edit{{In: "console.(*console).ServeHTTP", Old: "err := c.origin.Check(r); err != nil", New: "err := c.origin.Check(r); err != nil && r.Method == http.MethodPut"}},
		Tests: console("TestViewersDoNothing"),
	},
	{
		Name:  "the console acts without a reason",
		Edits: []Edit{{In: "console.(*request).do", Old: `by.Reason == ""`, New: `by.Who == ""`}, {In: "operate.(By).check", Old: `strings.TrimSpace(by.Reason) == ""`, New: `by.Who == ""`}},
		Tests: console("TestActions"),
	},
	{
		Name:  "the console shows payloads to a viewer",
		Edits: []Edit{{In: "console.(*request).show", Old: "err := q.operator(); err != nil", New: "err := q.operator(); err != nil && q.seen"}},
		Tests: console("TestHidden"),
	},
	{
		Name:  "the console shows what it does not audit",
		Edits: []Edit{{In: "console.(*request).looking", Old: "err != nil", New: "err != nil && q.seen == false"}},
		Tests: console("TestHidden"),
	},
	{
		Name:  "the console has keys in its links",
		Edits: []Edit{{In: "console.(sealer).seal", Old: "base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(text), []byte(kind)))", New: "base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(text), []byte(kind))) + text"}},
		Tests: console("TestFindKey"),
	},
	{
		Name:  "the console shows the cookie of a stored answer",
		Edits: []Edit{{In: "console.(answer).Fields", Old: "recorded.IsSecret(f.Name)", New: `recorded.IsSecret(f.Name) && f.Name == ""`}},
		Tests: console("TestHidden"),
	},
	{
		Name:  "a link of the console leads to an operation of another tenant",
		Edits: []Edit{{In: "console.(*request).operation", Old: "!ok || !q.sees(id.Scope)", New: "!ok"}},
		Tests: console("TestTenants"),
	},
	{
		Name:  "a tenant acts on what has none",
		Edits: []Edit{{In: "console.everything", Old: "q.user.Tenants != nil", New: "q.user.Tenants != nil && len(q.user.Tenants) == 0"}},
		Tests: console("TestTenants"),
	},
	{
		Name:  "a console without users answers under any name",
		Edits: []Edit{{In: "console.isLocal", Old: `host == "localhost" || err == nil && ip.IsLoopback()`, New: `host == "localhost" || err != nil || ip.IsLoopback()`}},
		Tests: console("TestWithoutUsers"),
	},
	{
		Name:  "a console without users answers what a proxy has passed on",
		Edits: []Edit{{In: "console.isLocal", Old: `r.Header.Get(name) != ""`, New: `r.Header.Get(name) == "*"`}},
		Tests: console("TestWithoutUsers"),
	},
	{
		Name:  "letters that died later are discarded as well",
		Edits: []Edit{{In: "console.(*request).matching", Old: "f.Before, err = time.Parse(time.RFC3339Nano, at)", New: "_, err = time.Parse(time.RFC3339Nano, at)"}},
		Tests: console("TestHowMany"),
	},
	{
		Name:  "a message does not name its operation",
		Edits: []Edit{{In: "outbox.(*Box).statements", Old: "by = op.ID", New: "by.Scope = op.ID.Scope"}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "the record of an operation does not name its events",
		Edits: []Edit{{In: "once.(*call).run", Old: "a.Result.Events = own.current.Events()", New: "_ = own.current.Events()"}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "the log of a consumer does not name the key",
		Edits: []Edit{{In: "inbox.(logObserver).Observe", Old: `hash := m.KeyHash(); hash != ""`, New: `hash := m.KeyHash(); hash == ""`}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "the log of a relay does not name the key",
		Edits: []Edit{{In: "outbox.(*Relay).publishItems", Old: "it.message.Headers = m.Headers", New: "_ = m.Headers"}},
		Tests: console("TestOneIntent"),
	},
	{
		Name:  "a phase does not name its events",
		Edits: []Edit{{In: "lease.(*transaction).runIn", Old: "next.Phases[len(next.Phases)-1].Events = own.Events()", New: "_ = own.Events()"}},
		Tests: console("TestTrailOfSteps"),
	},
	{
		Name:  "the undo of a step does not name its events",
		Edits: []Edit{{In: "saga.(*run).undo", Old: "u.Events = slices.Concat(b.Events, own.Events())", New: "u.Events = slices.Concat(b.Events, nil)"}},
		Tests: console("TestTrailOfSteps"),
	},
	{
		Name:  "what was rolled back names its events",
		Edits: []Edit{{In: "once.(*call).run", Old: "} else {\n\t\t\ta.Result.Events = own.current.Events()\n\t\t}", New: "}\n\t\ta.Result.Events = own.current.Events()"}},
		Tests: console("TestTrailOfSteps"),
	},
	{
		Name:  "a field of a form has an escape of a terminal",
		Edits: []Edit{{In: "console.harmless", Old: "return '\\uFFFD'", New: "return r"}},
		Tests: console("TestPages"),
	},
	{
		Name:  "what is sent again stays among what was delivered",
		Edits: []Edit{{In: "outbox.(*Box).Resend", Old: `delete from once_outbox_sent where part = ? and id = ?`, New: `update once_outbox_sent set sent_at = NOW where part = ? and id = ?`}},
		Tests: console("TestActions"),
	},
	{
		Name:  "what was erased is sent again",
		Edits: []Edit{{In: "outbox.(*Box).Resend", Old: " and (length(payload) > 0 or length(headers) > 0)", New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestFollowCommands"}},
	},
	{
		Name:  "a bounded list of keys leaves out what is behind its bound",
		Edits: []Edit{{In: "operate.(*Keys).List", Old: "p.Next, p.Cut = end.String(), true", New: "p.Cut = true"}},
		Tests: []Killer{{Module: "internal/torture", Package: "operate", Test: "TestListMost"}},
	},
	{
		Name:  "a search of a key ends with the first scopes",
		Edits: []Edit{{In: "operate.(*Keys).Search", Old: "p.Next, p.Cut = cursor{scope: scopes[most-1]}.String(), true", New: "p.Cut = true"}},
		Tests: []Killer{{Module: "internal/torture", Package: "operate", Test: "TestListMost"}},
	},
}

func console(test string) []Killer {
	return []Killer{{Module: "internal/torture", Package: "console", Test: test}}
}
