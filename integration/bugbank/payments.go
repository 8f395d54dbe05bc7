package bugbank

// paymentsMutants are bugs of package cmd/once/internal/payments.
var paymentsMutants = []Mutant{
	{
		Name:  "a migration of the demo's service that was cut is not completed",
		Edits: []Edit{{In: "isThere", Old: `|| e.Number == 1061`, New: ``}},
		Tests: []Killer{{Module: "cmd/once", Package: "internal/payments", Test: "TestMigrateWithRows"}},
	},
	{
		Name:  "the demo's tenant is the secret key",
		Edits: []Edit{{In: "stripeAccount", Old: `return "acct_" + hex.EncodeToString(sum[:16])`, New: `return "acct_" + secretKey + hex.EncodeToString(sum[:0])`}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestServeKeepsNoSecretKey"}},
	},
	{
		Name:  "the demo's document needs authentication",
		Edits: []Edit{{In: "payments.NewServer", Old: "keys.publish(mux,", New: "keys.publish(api,"}},
		Tests: []Killer{{Module: "cmd/once", Test: "TestServePublishes"}},
	},
}
