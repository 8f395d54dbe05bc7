package bugbank

// operateMutants are bugs of package operate and of the attempt log.
var operateMutants = []Mutant{
	{
		Name:  "an attempt has the time at which it was written",
		Edits: []Edit{{In: "(*Attempt).values", Old: "time.Since(a.Ended).Microseconds()", New: "time.Since(a.Ended).Microseconds() * 0"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
	},
	{
		Name:  "attempts whose answer was lost cannot be written again",
		Edits: []Edit{{In: "attempts.insertText", Old: "+` KEEP(id)`", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
	},
	{
		Name:  "attempts whose answer was lost cannot be written again to PostgreSQL",
		Edits: []Edit{{In: "insertArrays", Old: " on conflict do nothing", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
	},
	{
		Name:  "a quotation mark ends the text of an attempt",
		Edits: []Edit{{In: "appendElement", Old: "quoted.Replace(v)", New: "v"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestAttemptsAreKept"}},
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
		Name:  "a decision about an unknown outcome is not audited",
		Edits: []Edit{{In: "lease.(Resolution).once", Old: "c.Writes, err = how.audited(ops, id, rec, s)", New: "_, err = how.audited(ops, id, rec, s)"}},
		Tests: []Killer{{Module: "integration", Package: "operate", Test: "TestRelease"}},
	},
	{
		Name:  "a call whose key was voided is made again under the same key",
		Edits: []Edit{{In: "(Resolution).goesOn", Old: "case how.KeyVoided:", New: "case how.KeyVoided && how.Result != nil:"}},
		Tests: []Killer{{Module: "cmd/once", Package: "", Test: "TestKeysResolve"}},
	},
	{
		Name:  "a field of the JSON of a gap has another name",
		Edits: []Edit{{In: "operate.Gap", Old: "`json:\"parked\"`", New: "`json:\"waiting\"`"}},
		Tests: in("operate", "TestFieldNames"),
	},
}
