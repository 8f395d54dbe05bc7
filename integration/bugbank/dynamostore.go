package bugbank

// dynamostoreMutants are bugs of package store/dynamostore.
var dynamostoreMutants = []Mutant{
	{
		Name:  "DynamoDB: a record is written whatever is there",
		Edits: []Edit{{In: "dynamostore.(*expression).expects", Old: `e.compare("until", "<=", micros(now))`, New: `e.compare("until", "<=", micros(now)) + " OR attribute_exists(" + e.name("id") + ")"`}},
		Tests: dynamoTest("TestFortyNodes"),
	},
	{
		Name:  "DynamoDB: a record that is sent again is taken for another one's",
		Edits: []Edit{{In: "dynamostore.(*Store).refused", Old: "case own && rec.State == c.Next.State", New: "case false && own && rec.State == c.Next.State"}},
		Tests: dynamoTest("TestSentAgain"),
	},
	{
		Name:  "DynamoDB: what has the same nonce is one's own, also if nothing was sent again",
		Edits: []Edit{{In: "dynamostore.(*Store).refused", Old: "if d.uncertain() {", New: "if true {"}},
		Tests: dynamoTest("TestSentAgainByAnother"),
	},
	{
		Name:  "DynamoDB: a write without an answer was not applied",
		Edits: []Edit{{In: "dynamostore.(*Store).notApplied", Old: "case d.uncertain():", New: "case false:"}},
		Tests: dynamoTest("TestEachRequestFails"),
	},
	{
		Name:  "DynamoDB: an answer that is cut is an answer",
		Edits: []Edit{{In: "dynamostore.(*wire).Do", Old: "resp.StatusCode < 400 || resp.StatusCode >= 500", New: "resp.StatusCode >= 500"}},
		Tests: dynamoTest("TestEachRequestFails"),
	},
	{
		Name:  "DynamoDB: an expired record is swept at once",
		Edits: []Edit{{In: "dynamostore.(*Store).Sweep", Old: "now.Add(-grace)", New: "now"}},
		Tests: dynamoTest("TestAWriteThatArrivesLate"),
	},
	{
		Name:  "DynamoDB: a frozen process believes its clock",
		Edits: []Edit{{In: "dynamostore.trusted", Old: "(wall-monotonic).Abs() <= maxFrozen", New: "wall >= monotonic-maxFrozen"}},
		Tests: dynamoTest("TestFrozenProcessAsksAgain"),
	},
	{
		Name:  "DynamoDB: a table that is replicated will do",
		Edits: []Edit{{In: "dynamostore.(*Store).problem", Old: `len(t.Replicas) > 0 && s.home == ""`, New: `len(t.Replicas) > 1 && s.home == ""`}},
		Tests: dynamoTest("TestCheckRefusesUnsafeTables"),
	},
	{
		Name:  "DynamoDB: a lease need not be held",
		Edits: []Edit{{In: "dynamostore.(*Store).writes", Old: "w.items = append(w.items, checks...)", New: "_ = checks"}},
		Tests: dynamoTest("TestConformance$/^Clock$"),
	},
	{
		Name:  "DynamoDB: a first attempt is looked up",
		Edits: []Edit{{In: "dynamostore.(*Store).Begin", Old: "opts.Batch || opts.First && opts.StaleAfter.IsZero()", New: "opts.Batch"}},
		Tests: dynamoTest("TestRequestsOfEachCall"),
	},
	{
		Name:  "DynamoDB: a commit that is too late is sent",
		Edits: []Edit{{In: "dynamostore.(*wire).Do", Old: "!t.Before(d.staleAfter)", New: "t.Before(d.staleAfter.Add(-1 << 62))"}},
		Tests: dynamoTest("TestConformance$/^Swap$"),
	},
	{
		Name:  "DynamoDB: what is too large is sent",
		Edits: []Edit{{In: "dynamostore.withinLimits", Old: "if n > maxItem {", New: "if n > 2*maxItem {"}},
		Tests: dynamoTest("TestLimitsAreNamedAndApplyNothing"),
	},
}
