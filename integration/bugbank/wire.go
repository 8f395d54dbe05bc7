package bugbank

// wireMutants are bugs of package internal/base/wire.
var wireMutants = []Mutant{
	{
		Name:  "a parameter may have 16 digits",
		Edits: []Edit{{In: "wire.parameters", Old: "number = `-?(?:[0-9]{1,15}|[0-9]{1,12}\\.[0-9]{1,3})`", New: "number = `-?(?:[0-9]{1,16}|[0-9]{1,12}\\.[0-9]{1,3})`"}},
		Tests: in("internal/base/wire", "TestKeyGrammar"),
	},
	{
		Name:  "a parameter may have half of a character",
		Edits: []Edit{{In: "wire.parameters", Old: "`|ed%[89]`", New: "`|ed%[89a]`"}},
		Tests: in("internal/base/wire", "TestKeyGrammar"),
	},
	{
		Name:  "a principal can spell the scope of another one",
		Edits: []Edit{{In: "Scope", Old: `url.PathEscape(principal) + " " + route`, New: `principal + " " + route`}},
		Tests: in("oncehttp", "TestScopesDoNotMeet"),
	},
	{
		Name:  "long scopes are the same when they begin alike",
		Edits: []Edit{{In: "Scope", Old: "base64.RawURLEncoding.EncodeToString(h[:])", New: "base64.RawURLEncoding.EncodeToString(h[:0])"}},
		Tests: in("oncehttp", "TestScopeOfPrincipalAndPath"),
	},
}
