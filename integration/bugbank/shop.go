package bugbank

// shopMutants are bugs of package examples/shop.
var shopMutants = []Mutant{
	{
		Name:  "the kill script of the shop does not see a second shipment",
		Edits: []Edit{{In: "(*storm).count", Old: "c.twice += max(0, of[id]-1)", New: "c.twice += 0"}},
		Tests: []Killer{{Module: "examples/shop", Test: "TestCountSeesLostAndRepeatedOrders"}},
	},
	{
		Name:  "an order of the shop commits without its event",
		Edits: []Edit{{In: "placeOrder", Old: `err = tell(r.Context(), box, tx, ordersTopic, "order.placed", o)`, New: "_ = box"}},
		Tests: []Killer{{Module: "examples/shop", Test: "TestShopSurvivesTheKillScript$/^SQLite$"}},
	},
	{
		Name:  "the kill script of the shop does not see a lost order",
		Edits: []Edit{{In: "(*storm).count", Old: "c.lost++", New: "c.lost += 0"}},
		Tests: []Killer{{Module: "examples/shop", Test: "TestCountSeesLostAndRepeatedOrders"}},
	},
}
