package bugbank

// killstormMutants are bugs of package cmd/once/internal/killstorm.
var killstormMutants = []Mutant{
	{
		Name:  "the demo does not see that an event is booked twice",
		Edits: []Edit{{In: "killstorm.check", Old: "a.twice++", New: "a.twice += 0"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestCheckBookings"}},
	},
	{
		Name:  "the demo does not see that events are booked out of order",
		Edits: []Edit{{In: "killstorm.check", Old: "b.seq != last[b.key]+1 || b.place != b.seq", New: "b.seq < last[b.key]"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestCheckBookings"}},
	},
	{
		Name:  "the demo does not see that an order is charged twice",
		Edits: []Edit{{In: "(orderOutcome).contradicts", Old: "case len(made) > 1:", New: "case len(made) > 2:"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestProvidersReport"}},
	},
	{
		Name:  "the demo does not see that a webhook is booked twice",
		Edits: []Edit{{In: "killstorm.(*Webhooks).judgeBookings", Old: "booked[name]-1", New: "booked[name]-2"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestWebhooksReport"}},
	},
	{
		Name:  "the demo takes the requests of a shop for its charges",
		Edits: []Edit{{In: "killstorm.readShopBooks", Old: "from charge group by", New: "from arrival group by"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestShopBooks"}},
	},
	{
		Name:  "the demo does not see that an order behind a gateway is charged twice",
		Edits: []Edit{{In: "(*ModeReport).add", Old: "case charges > 1:", New: "case charges > 2:"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestGatewaysReport"}},
	},
	{
		Name:  "the demo does not see a secret of an endpoint",
		Edits: []Edit{{In: "killstorm.formsOf", Old: "len(key) < 16", New: "len(key) > 16"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestSecretsAreFound"}},
	},
	{
		Name:  "the demo does not see that the instruments have counted too little",
		Edits: []Edit{{In: "killstorm.(*Report).compare", Old: "sum.Last != sum.LastEffects", New: "sum.Last > sum.LastEffects"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestInstrumentsMustAgree"}},
	},
	{
		Name:  "the demo takes a refund that was rolled back for one that the instruments have counted",
		Edits: []Edit{{In: "killstorm.(*instruments).read", Old: `!strings.Contains(series, ` + "`effect=\"applied\"`" + `)`, New: "false"}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/killstorm", Test: "TestInstrumentsAreRead"}},
	},
}
