package bugbank

// operateMutants are bugs of package operate.
var operateMutants = []Mutant{
	{
		Name:  "the list of changes has the reads too",
		Edits: []Edit{{In: "operate.(*Keys).Audit", Old: "if f.Changes {", New: "if f.Changes && f.Scope != \"\" {"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestLooksAreAudited$/^SQLite$"}},
	},
	{
		Name:  "forgetting an answer forgets that its writes were rolled back",
		Edits: []Edit{{In: "(Operation).forgottenHead", Old: "return head.Encode(&store.Result{RolledBack: true})", New: "return nil"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestKeysShowTellsWhatStands"}},
	},
	{
		Name:  "a bounded list of keys leaves out what is behind its bound",
		Edits: []Edit{{In: "operate.(*Keys).List", Old: "p.Next, p.Cut = end.String(), true", New: "p.Cut = true"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestListMost"}},
	},
	{
		Name:  "a search of a key ends with the first scopes",
		Edits: []Edit{{In: "operate.(*Keys).Search", Old: "p.Next, p.Cut = cursor{scope: scopes[most-1]}.String(), true", New: "p.Cut = true"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestListMost"}},
	},
	{
		Name:  "a page of deliveries in one state reads all of an endpoint",
		Edits: []Edit{{In: "operate.(*Webhooks).Deliveries", Old: "Before: f.After, From: from,", New: "Before: f.After,"}},
		Tests: console("TestManyRows"),
	},
	{
		Name: "a secret is told to all hosts",
		Edits: []Edit{{In: "operate.(*Intents).restricted", Old: `case len(hosts) > 1:`, New: `case len(hosts) > 1:
	return s.journal, nil
case len(hosts) > 1<<20:`}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestJournalTellsOneHostASecret"}},
	},
	{
		Name:  "what a saga has stored is forgotten",
		Edits: []Edit{{In: "operate.(*Keys).Forget", Old: "owner.Check(ctx, o.Scope)", New: "owner.Check(ctx, o.Key)"}},
		Tests: in("operate", "TestForgetRefusesOwners"),
	},
	{
		Name:  "the key of a hash is looked for on one page",
		Edits: []Edit{{In: "operate.(*Keys).FindHash", Old: `f.After == ""`, New: `f.After == "" || len(p.Items) > 0`}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestKeysListFindsHashes"}},
	},
	{
		Name:  "an outcome that can be asked waits for a person",
		Edits: []Edit{{In: "operate.(Operation).Meaning", Old: "p.Call != nil && p.Call.Checked", New: "p.Call != nil && p.Call.Tx"}},
		Tests: in("operate", "TestMeaningOfEachState"),
	},
	{
		Name:  "forgetting needs an attempt log",
		Edits: []Edit{{In: "operate.(*Keys).forget", Old: "if hasLog {", New: "if hasLog || true {"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestForgetWithoutAttemptLog"}},
	},
	{
		Name:  "the audit of a key needs an attempt log",
		Edits: []Edit{{In: "operate.(*Keys).timelineIfAny", Old: "err == nil || sqlguard.IsMissing(err)", New: "err == nil"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestForgetWithoutAttemptLog"}},
	},
	{
		Name:  "forgetting does not reach the cache",
		Edits: []Edit{{In: "(*Keys).Forget", Old: "c.InvalidateCache(context.WithoutCancel(ctx), o.Scope, o.Key)", New: "func() error { _ = c; return nil }()"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestForgottenOverHTTP"}},
	},
	{
		Name:  "a list of MariaDB and MySQL reads what is unfinished in any state",
		Edits: []Edit{{In: "operate.(*Keys).within", Old: `c.text = "expires_at is null and " + states[f.State]`, New: `c.text += ""`}},
		Tests: mariadbSQL("TestAPageReadsNoMore"),
	},
	{
		Name:  "a preview of forgetting is committed",
		Edits: []Edit{{In: "(*Keys).Forget", Old: "err == nil && o.Preview", New: "err == nil && o.Preview && o.Key == by.Reason"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestForgottenNeverExecutes"}},
	},
	{
		Name:  "an operation changes while it is forgotten",
		Edits: []Edit{{In: "(*Keys).forget", Old: " FOR UPDATE", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestForgetSeesWhatIsCommittedMeanwhile"}},
	},
	{
		Name:  "a cache keeps what was forgotten by a COMMIT whose answer was lost",
		Edits: []Edit{{In: "(*Keys).Forget", Old: "if errors.Is(err, errPreview) {", New: "if err != nil {"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestForgetNothingHalf"}},
	},
	{
		Name:  "a field of the JSON of a gap has another name",
		Edits: []Edit{{In: "operate.Gap", Old: "`json:\"parked\"`", New: "`json:\"waiting\"`"}},
		Tests: in("operate", "TestFieldNames"),
	},
	{
		Name:  "what was delivered since the backup is not sent again",
		Edits: []Edit{{In: "operate.(*Outbox).since", Old: "m.SentAt.Before(s.At) ||", New: "m.SentAt.After(s.At) ||"}},
		Tests: restored("TestARestoredConsumer"),
	},
	{
		Name:  "sagas of all tenants are listed for one",
		Edits: []Edit{{In: "operate.(*Sagas).List", Old: "if f.Tenant != nil {", New: "if f.Tenant == nil {\nf.Tenant = new(string)\n}\nif *f.Tenant == \"none\" {"}},
		Tests: onSagaCommands(),
	},
	{
		Name:  "a saga that is forgotten counts as completed",
		Edits: []Edit{{In: "operate.sagaOf", Old: `op.Result == "omitted":`, New: `op.Result == "none":`}},
		Tests: onSagaCommands(),
	},
	{
		Name:  "the doctor does not name a topic that is down",
		Edits: []Edit{{In: "operate.WaitsOf", Old: "w.For != outbox.WaitPaused", New: "w.For == outbox.WaitPaused"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestOutboxTopics"}},
	},
	{
		Name:  "shared cache: nobody is told that a cache was not reached",
		Edits: []Edit{{In: "(*Keys).Forget", Old: "err = errors.Join(err, ErrCache, cacheErr)", New: "_ = ErrCache"}},
		Tests: sharedTest("TestForgottenResultIsReplayedByNoNode"),
	},
	{
		Name:  "an archive shows the rows of every table under a key",
		Edits: []Edit{{In: "operate.(*Archive).FindRows", Old: `e.Table == table && table != ""`, New: `table != ""`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestReceiptsCommands$/^SQLite$"}},
	},
	{
		Name:  "an archive shows the messages of every topic under an ID",
		Edits: []Edit{{In: "operate.(*Archive).FindRows", Old: `(scope == "" || scope == e.Scope) && `, New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestRelayArchive"}},
	},
	{
		Name:  "a message in an archive is an operation",
		Edits: []Edit{{In: "operate.(*Archive).Find", Old: `e.Table == "" && `, New: ""}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestRelayArchive"}},
	},
	{
		Name:  "the copy of an archive has its rows as operations",
		Edits: []Edit{{In: "archive.(*restore).Run", Old: `if e.Table != "" {`, New: `if e.Table == "none" {`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestReceiptsCommands$/^SQLite$"}},
	},
}
