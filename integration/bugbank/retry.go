package bugbank

// retryMutants are bugs of package retry.
var retryMutants = []Mutant{
	{
		Name:  "rate limits are paid for like failures",
		Edits: []Edit{{In: "(*Budget).payFor", Old: "c == ClassRateLimited", New: "false"}},
		Tests: in("retry/retryhttp", "TestRateLimitHasItsOwnBudget"),
	},
	{
		Name:  "a success does not pay for a rate limited retry",
		Edits: []Edit{{In: "(*Budget).earn", Old: "giveBack(&b.limited, 1)", New: ""}},
		Tests: in("retry/retryhttp", "TestRateLimitHasItsOwnBudget"),
	},
	{
		Name:  "who waits for a rate limit comes back with all others",
		Edits: []Edit{{In: "(*Policy).pause", Old: "max(bound, min(f.After, time.Second))", New: "max(bound, 0)"}},
		Tests: in("retry/retryhttp", "TestRateLimit"),
	},
	{
		Name:  "calls of the same moment are a crowd",
		Edits: []Edit{{In: "(*silence).others", Old: "(f.Now - f.Begun) / 2", New: "0 * f.Now"}},
		Tests: in("retry/retryhttp", "TestBlipIsRetriedWithinTheBudget"),
	},
	{
		Name:  "calls at other times are no crowd",
		Edits: []Edit{{In: "retry.crowd", Old: "3", New: "1000"}},
		Tests: in("retry", "TestFailuresInARow"),
	},
	{
		Name:  "a destination that takes the place of another one begins with rate limited retries",
		Edits: []Edit{{In: "(*registry).get", Old: "b.limited.Store(b.limitedSize())", New: ""}},
		Tests: in("retry", "TestForgettingDoesNotRefill"),
	},
}
