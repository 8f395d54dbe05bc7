package bugbank

// consoleMutants are bugs of package console.
var consoleMutants = []Mutant{
	{
		Name:  "the page of inboxes fails on a database without an inbox",
		Edits: []Edit{{In: "console.(*request).inboxes", Old: "case sqlguard.IsMissing(err):", New: "case sqlguard.IsMissing(nil):"}},
		Tests: []Killer{{Module: "integration", Package: "console", Test: "TestDatabaseWithoutAnInbox"}},
	},
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
		Tests: console("TestActionsDoWhatTheirCommandsDo"),
	},
	{
		Name:  "the console shows payloads to a viewer",
		Edits: []Edit{{In: "console.(*request).show", Old: "err := q.operator(); err != nil", New: "err := q.operator(); err != nil && q.seen"}},
		Tests: console("TestKeysAndPayloadsAreHidden"),
	},
	{
		Name:  "the console shows what it does not audit",
		Edits: []Edit{{In: "console.(*request).looking", Old: "err != nil", New: "err != nil && q.seen == false"}},
		Tests: console("TestKeysAndPayloadsAreHidden"),
	},
	{
		Name:  "the console has keys in its links",
		Edits: []Edit{{In: "console.(sealer).seal", Old: "base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(text), []byte(kind)))", New: "base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(text), []byte(kind))) + text"}},
		Tests: console("TestFindKey"),
	},
	{
		Name:  "the console shows the cookie of a stored answer",
		Edits: []Edit{{In: "console.(answer).Fields", Old: "recorded.IsSecret(f.Name)", New: `recorded.IsSecret(f.Name) && f.Name == ""`}},
		Tests: console("TestKeysAndPayloadsAreHidden"),
	},
	{
		Name:  "a link of the console leads to an operation of another tenant",
		Edits: []Edit{{In: "console.(*request).operation", Old: "!ok || !q.sees(id.Scope)", New: "!ok"}},
		Tests: console("TestTenantsSeeOnlyTheirOwn"),
	},
	{
		Name:  "a tenant acts on what has none",
		Edits: []Edit{{In: "console.everything", Old: "q.user.Tenants != nil", New: "q.user.Tenants != nil && len(q.user.Tenants) == 0"}},
		Tests: console("TestTenantsSeeOnlyTheirOwn"),
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
		Name:  "a field of a form has an escape of a terminal",
		Edits: []Edit{{In: "console.harmless", Old: "return '\\uFFFD'", New: "return r"}},
		Tests: console("TestPagesAreReachableAndEscaped"),
	},
	{
		Name:  "a form of the console counts all dead letters",
		Edits: []Edit{{In: "console.(*request).matching", Old: "f.Window.Limit, f.Most = 1, mostMatching", New: "f.Window.Limit = 1"}},
		Tests: console("TestManyRows"),
	},
	{
		Name:  "a page of topics reads all of them",
		Edits: []Edit{{In: "console.(*request).topics", Old: "mostOfTopics)", New: "100*mostOfTopics)"}},
		Tests: console("TestManyRows"),
	},
	{
		Name:  "a page of an inbox reads all keys that wait",
		Edits: []Edit{{In: "console.(*request).inbox", Old: "GapFilter{Consumer: consumer, Most: mostGaps,", New: "GapFilter{Consumer: consumer, Most: 1000 * mostGaps,"}},
		Tests: console("TestManyRows"),
	},
	{
		Name:  "a user with tenants sees keys of inboxes",
		Edits: []Edit{{In: "console.Handler", Old: `everything((*request).place)`, New: `(*request).place`}},
		Tests: console("TestTenantsSeeOnlyTheirOwn"),
	},
	{
		Name:  "a user with tenants skips a message of an inbox",
		Edits: []Edit{{In: "console.(*request).number", Old: "(q); err != nil", New: `(q); err != nil && q.user.Name == ""`}},
		Tests: console("TestTenantsSeeOnlyTheirOwn"),
	},
	{
		Name:  "a page of an inbox has a key",
		Edits: []Edit{{In: "console.(*request).place", Old: "Hash: keyname.Hash(m.Key)", New: "Hash: m.Key"}},
		Tests: console("TestKeysAndPayloadsAreHidden"),
	},
	{
		Name:  "the key of an inbox is shown without an audit",
		Edits: []Edit{{In: "console.(*request).showPlace", Old: `", on the console"}); err != nil`, New: `", on the console"}); err != nil && !q.seen`}},
		Tests: console("TestKeysAndPayloadsAreHidden"),
	},
	{
		Name:  "more parked messages are dropped than the form has said",
		Edits: []Edit{{In: "console.(*request).startAt", Old: "said != about.Values[len(about.Values)-1][1]", New: `said == "-" && about.What == ""`}},
		Tests: console("TestInboxActions"),
	},
	{
		Name:  "a user with tenants sees the endpoints of others",
		Edits: []Edit{{In: "console.(*request).theEndpoint", Old: "!q.seesTenant(e.Tenant)", New: `e.Tenant == ""`}},
		Tests: console("TestTenantsSeeOnlyTheirOwn"),
	},
	{
		Name:  "a user with tenants sees the sagas of others",
		Edits: []Edit{{In: "console.(*request).theSaga", Old: "!ok || !is || !q.seesTenant(tenant)", New: "!ok || !is"}},
		Tests: console("TestTenantsSeeOnlyTheirOwn"),
	},
	{
		Name: "a user with an empty tenant sees the endpoints of all tenants",
		Edits: []Edit{
			{In: "console.(*console).userOf", Old: `return t == ""`, New: `return t == "*"`},
			{In: "console.(*request).endpoints", Old: "if q.seesTenant(e.Tenant) {", New: "{"},
		},
		Tests: console("TestEmptyTenantSeesNothing"),
	},
	{
		Name:  "a user with an empty tenant sees what has no tenant",
		Edits: []Edit{{In: "console.(*console).userOf", Old: `return t == ""`, New: `return t == "*"`}},
		Tests: console("TestEmptyTenantSeesNothing"),
	},
	{
		Name:  "a form that does not arrive takes a place of the console",
		Edits: []Edit{{In: "console.(*console).serve", Old: "err := readForm(w, r); err != nil", New: "err := r.Context().Err(); err != nil"}},
		Tests: in("console", "TestSlowConnectionsTakeNoPlace"),
	},
	{
		Name:  "an answer that is not read takes a place of the console",
		Edits: []Edit{{In: "console.(*request).write", Old: "q.free()", New: "defer q.free()"}},
		Tests: in("console", "TestSlowConnectionsTakeNoPlace"),
	},
	{
		Name:  "a form of the console may take for ever to arrive",
		Edits: []Edit{{In: "console.readForm", Old: "time.Now().Add(readTime)", New: "time.Time{}"}},
		Tests: in("console", "TestFormDoesNotArrive"),
	},
	{
		Name:  "the deadline of a form stays on its connection",
		Edits: []Edit{{In: "console.readForm", Old: "_ = control.SetReadDeadline(time.Time{})", New: ""}},
		Tests: in("console", "TestDeadlineOfAFormEndsWithIt"),
	},
	{
		Name:  "the list of endpoints is of any tenant",
		Edits: []Edit{{In: "console.(*request).ofTenant", Old: "q.user.Tenants == nil", New: `q.user.Tenants == nil || q.FormValue("tenant") != ""`}},
		Tests: console("TestTenantsSeeOnlyTheirOwn"),
	},
	{
		Name:  "an operation shows the webhooks that it has sent to another tenant",
		Edits: []Edit{{In: "console.(*request).seenEvents", Old: "!q.seesTenant(s.Tenant)", New: `s.Tenant == ""`}},
		Tests: console("TestHooksOfTenants"),
	},
	{
		Name:  "the console shows the URL of an endpoint",
		Edits: []Edit{{In: "console.rowOf", Old: "row.Host = u.Host", New: "row.Host = u.Host + u.Path"}},
		Tests: console("TestKeysAndPayloadsAreHidden"),
	},
	{
		Name:  "the console shows what an endpoint has answered to a tenant",
		Edits: []Edit{{In: "console.(*request).delivery", Old: "q.seen && q.user.Tenants == nil", New: "q.seen"}},
		Tests: console("TestHooksHidden"),
	},
	{
		Name:  "the console shows the data of a webhook that it does not audit",
		Edits: []Edit{{In: "console.(*request).showHook", Old: `err := q.looked(operate.Access{Scope: e.Tenant, Detail: detail + ", on the console"}); err != nil`, New: `err := q.looked(operate.Access{Scope: e.Tenant, Detail: detail + ", on the console"}); err != nil && !q.seen`}},
		Tests: console("TestHooksHidden"),
	},
	{
		Name:  "the console shows what is hidden on the page of a saga",
		Edits: []Edit{{In: "console.(*request).render", Old: "Seen: q.seen", New: `Seen: q.seen || name == "saga"`}, {In: "console.(*request).saga", Old: "body.SagaView = v.WithoutBody()", New: "_ = v.WithoutBody()"}},
		Tests: console("TestKeysAndPayloadsAreHidden"),
	},
	{
		Name:  "console: what a store may lose is not said",
		Edits: []Edit{{In: "console.(*console).volatile", Old: "rows = append(rows, volatileRow{name, v.Volatile()})", New: "_ = v"}},
		Tests: []Killer{{Module: "integration", Package: "console", Test: "TestWhatMayBeLost"}},
	},
}
