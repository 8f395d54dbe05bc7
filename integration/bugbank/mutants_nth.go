package bugbank

// nths let an error, or a lost connection, at the wrong statement do harm.
var nths = []Mutant{
	{
		Name: "what ends the transaction is sent, and found out afterwards, on pgx",
		Edits: []Edit{{
			In:  "(*tx).admit",
			Old: "if sqlguard.PostgreSQL.Ends(sql) {",
			New: "if false && sqlguard.PostgreSQL.Ends(sql) {",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestEndedAndLost$/^pgxstore"}},
	},
	{
		Name: "what a handler has committed from below is not looked for when it fails",
		Edits: []Edit{{
			In:  "(*call).runFailed",
			Old: "case state == store.StateUnknown && unanswered:",
			New: "case state == store.StateRunning && unanswered:",
		}, {
			In:  "(*call).runFailed",
			Old: "case state == store.StateDone, state == store.StateUnknown:",
			New: "case state == store.StateDone: // somebody else's",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestEndedAndLost$/^MariaDB"}},
	},
	{
		Name: "an error of a statement is forgotten, and the transaction commits",
		Edits: []Edit{{
			In: "(*Txn).settle",
			Old: `t.fail(since, query, err)
return`,
			New: "return",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestNth$/^SQLite"}},
	},
	{
		Name: "Timeouts.Lock is for rows only",
		Edits: []Edit{{
			In:  "(*Store).mysqlTimeouts",
			Old: `, {"lock_wait_timeout", time.Second, t.Lock}}`,
			New: "}",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestTimeouts$/^MariaDB$/^table", Hangs: true}},
	},
	{
		Name: "who was wrong about a first time is believed again",
		Edits: []Edit{{
			In:  "(*call).isFirst",
			Old: "return c.op.Attempt.Number == 1 && !c.id.IsZero() && c.runs == 0 && c.waited == 0",
			New: "return c.op.Attempt.Number == 1 && !c.id.IsZero()",
		}},
		Tests: []Killer{{Module: "integration", Test: "TestNthVain$/^pgxstore"}},
	},
}
