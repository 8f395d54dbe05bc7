package bugbank

// defaultsMutants are bugs of what a user gets without asking for it.
var defaultsMutants = []Mutant{
	{
		Name:  "without an observer nothing is logged",
		Edits: []Edit{{In: "once.New", Old: "cfg.Observer = logObserver{}", New: "cfg.Observer = nil"}},
		Tests: in("", "TestDefaultLog"),
	},
	{
		Name:  "the default log shows what is in order",
		Edits: []Edit{{In: "(*Engine).shows", Old: "(!e.alarms || levelOf(ev) >= slog.LevelWarn)", New: "true"}},
		Tests: in("", "TestDefaultLog"),
	},
	{
		Name:  "the error given to Fail outside of an operation is lost",
		Edits: []Edit{{In: "oncehttp.Fail", Old: `"error", err`, New: `"error", nil`}},
		Tests: in("oncehttp", "TestFailIsLogged"),
	},
	{
		Name:  "a store is opened without its tables",
		Edits: []Edit{{In: "sqlstore.New", Old: "err := s.Check(ctx); errors.Is(err, store.ErrNotMigrated)", New: "err := s.Check(ctx); d.name == \"\""}},
		Tests: group("TestMissingTables"),
	},
	{
		Name:  "a first attempt does not say that tables are missing",
		Edits: []Edit{{In: "pgxstore.ownTable", Old: "(known || strings.Contains(pe.Message, `\"once_`))", New: "known && false"}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestMissingTables"}},
	},
	{
		Name:  "what is kept for ever has an end",
		Edits: []Edit{{In: "(*Engine).retain", Old: "or(op.Retain, e.cfg.Retain)", New: "min(or(op.Retain, e.cfg.Retain), defaultRetain*1000)"}},
		Tests: in("", "TestForever"),
	},
	{
		Name:  "a late first attempt at what is kept for ever is refused",
		Edits: []Edit{{In: "(*Engine).tooLateFrom", Old: "|| e.retain(op) == Forever", New: ""}, {In: "(*Engine).tooLateFrom", Old: "op.Attempt.FirstSent.Add(e.retain(op) - e.skew(op))", New: "op.Attempt.FirstSent.Add(defaultRetain)"}},
		Tests: in("store/memstore", "TestConformance"),
	},
	{
		Name:  "an answer that is not stored is told as ignored",
		Edits: []Edit{{In: "(*Exchange).Finish", Old: "status := wire.StatusNotStored", New: "status := wire.StatusIgnored"}},
		Tests: in("oncehttp", "TestNotStored"),
	},
	{
		Name:  "a business 409 is told as a failure",
		Edits: []Edit{{In: "(*call).observeEnd", Old: "&& answer.NotStored()", New: "&& false && answer.NotStored()"}},
		Tests: in("oncehttp", "TestNotStored"),
	},
	{
		Name:  "a 401 without a challenge",
		Edits: []Edit{{In: "(*Exchange).WriteProblem", Old: "p.Code == ProblemUnauthenticated && !set", New: "p.Code == ProblemUnauthenticated && set"}},
		Tests: in("oncehttp", "TestChallenge"),
	},
	{
		Name: "a handler's own deadline is the store's",
		Edits: []Edit{{In: "(*session).refuse", Old: `default:
			kind = store.KindOther`, New: `default:
			kind = store.KindBusy`}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestOwnDeadline"}},
	},
	{
		Name:  "a key with a NUL says that the store is down",
		Edits: []Edit{{In: "Unwritable", Old: `sqlState == "22021"`, New: `sqlState == ""`}},
		Tests: []Killer{{Module: "store/pgxstore", Test: "TestConformanceOfEachMode$/^exec$/^ForeignText"}},
	},
	{
		Name:  "the command waits for a silent server",
		Edits: []Edit{{In: "Reached", Old: "db.PingContext(bounded)", New: "db.PingContext(ctx)"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestSilentServer", Hangs: true}},
	},
	{
		Name:  "a password is echoed",
		Edits: []Edit{{In: "ParseSource", Old: `strings.ContainsAny(dsn, "@=")`, New: `strings.ContainsAny(dsn, "=")`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestPasswordsAreNotEchoed"}},
	},
	{
		Name:  "sync_binlog is judged without a binary log",
		Edits: []Edit{{In: "askSyncBinlog", Old: `err != nil || log != "ON"`, New: `err != nil || log == ""`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestDoctorWaits"}},
	},
}
