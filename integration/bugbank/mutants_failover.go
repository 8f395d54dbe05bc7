package bugbank

// failover returns a test that has a standby.
func failover(test string) []Killer { return []Killer{{Module: "integration", Test: test}} }

// failovers acknowledge what a failover takes away.
var failovers = []Mutant{
	{
		Name: "settling believes what only the primary has",
		Edits: []Edit{{
			In:  "(*call).settle",
			Old: "store.BeginOptions{ID: ch.ID, Durable: true}",
			New: "store.BeginOptions{ID: ch.ID}",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^local"),
	},
	{
		Name: "replays ignore Config.Synced",
		Edits: []Edit{{
			In:  "(*call).claim",
			Old: "Durable: c.e.cfg.Synced, First:",
			New: "First:",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^synced"),
	},
	{
		Name: "a replay that is read first ignores Config.Synced",
		Edits: []Edit{{
			In:  "(*call).readFirst",
			Old: "c.lookUp.done || c.e.cfg.Synced ||",
			New: "c.lookUp.done ||",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^synced"),
	},
	{
		Name: "joining ignores Config.Synced",
		Edits: []Edit{{
			In:  "(*call).join",
			Old: "store.BeginOptions{ID: c.id, Durable: c.e.cfg.Synced, StaleAfter",
			New: "store.BeginOptions{ID: c.id, StaleAfter",
		}},
		Tests: failover("TestReplaysSurviveAFailover$/^pgxstore$/^synced"),
	},
	{
		Name: "who has lost a race is told of what only the primary has",
		Edits: []Edit{{
			In:  "(*call).swap",
			Old: "if rec.State == store.StateDone && c.e.cfg.Synced {",
			New: "if false {",
		}},
		Tests: failover("TestALostRaceIsDurable$/^pgxstore"),
	},
	{
		Name: "a wait for the standby that was cancelled counts as its answer",
		Edits: []Edit{{
			In:  "results",
			Old: "if err == nil && ctx.Err() != nil {",
			New: "if false {",
		}},
		Tests: failover("TestACancelledWaitIsNotSuccess$/^pgxstore"),
	},
}
