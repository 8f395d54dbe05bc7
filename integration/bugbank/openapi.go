package bugbank

// openapiMutants are bugs of package oncehttp/openapi.
var openapiMutants = []Mutant{
	{
		Name:  "a document has the codes of another dialect",
		Edits: []Edit{{In: "openapi.(*route).problemResponse", Old: `object{"code": prob.Code,`, New: `object{"code": prob.Title,`}},
		Tests: in("oncehttp", "TestCodesOfAPreset"),
	},
	{
		Name:  "two templates of one path are two paths",
		Edits: []Edit{{In: "openapi.New", Old: "first, ok := names[shape]; ok", New: "first, ok := names[shape]; ok && first == path"}},
		Tests: in("oncehttp/openapi", "TestPathsOfOneTemplate"),
	},
	{
		Name:  "a method that OpenAPI does not know is a member of a path",
		Edits: []Edit{{In: "setOperation", Old: "http.MethodDelete, http.MethodPatch:", New: `http.MethodDelete, http.MethodPatch, "QUERY":`}},
		Tests: in("oncehttp/openapi", "TestPathsOfOneTemplate"),
	},
	{
		Name:  "openapi: what a store may lose is not said",
		Edits: []Edit{{In: "openapi.(*route).rules", Old: `if p.volatile != ""`, New: `if false`}},
		Tests: []Killer{{Module: ".", Package: "oncehttp/openapi", Test: "TestVolatileStoreIsNamed"}},
	},
	{
		Name:  "a document does not say which values are compared",
		Edits: []Edit{{In: "(*route).rules", Old: "if len(chosen) > 0 {", New: "if len(chosen) > 0 && name != \"json\" {"}},
		Tests: in("oncehttp/openapi", "TestDocumentOfARoute"),
	},
	{
		Name:  "the pattern of a UUID has capitals",
		Edits: []Edit{{In: "openapi.formsOf", Old: "[0-9a-f]{12}", New: "[0-9a-fA-F]{12}"}},
		Tests: in("oncehttp/openapi", "TestKeyPatterns"),
	},
}
