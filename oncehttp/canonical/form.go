package canonical

import (
	"mime"
	"net/url"
	"slices"
	"strings"
)

// Form does not change a form that exceeds these limits, because its notes about names must not need more memory than the form itself.
const (
	maxParameters     = 10_000
	maxParameterDepth = 32
)

// Form is a Preset.Body of package oncehttp. Form returns the same bytes for two forms (application/x-www-form-urlencoded) with the same parameters.
// Differences in the order of parameters and in the escaping of characters are removed. The order of the values of a list is kept, as in a[]=1&a[]=2.
// The order is also kept in a[][x]=1&a[][y]=2, because in such a list the order says which values belong to one element. Form returns a body
// unchanged if the body cannot be parsed, uses one name in two ways (a=1&a[b]=2), has more than 10000 parameters, or has names with more than 32
// levels.
func Form(contentType string, body []byte) []byte {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != "application/x-www-form-urlencoded" {
		return body
	}
	params, ok := formParameters(string(body))
	if !ok {
		return body
	}
	slices.SortStableFunc(params, func(a, b parameter) int { return strings.Compare(a.list, b.list) })
	sorted := make([]byte, 0, len(body))
	for i, p := range params {
		if i > 0 {
			sorted = append(sorted, '&')
		}
		sorted = append(sorted, url.QueryEscape(p.name)...)
		if p.assigned {
			sorted = append(append(sorted, '='), url.QueryEscape(p.value)...)
		}
	}
	return sorted
}

// parameter is one parameter of a form.
type parameter struct {
	name, value string
	assigned    bool   // the name has an equals sign: "a" has no value, and "a=" has an empty value
	list        string // the name up to the [] of a list; parameters of the same list keep their order
}

// formParameters returns the parameters of a form. It returns false if parsers could read the form in different ways.
func formParameters(body string) (params []parameter, ok bool) {
	uses := map[string]parameterUse{} // by name and by each prefix of a name
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		name, value, assigned := strings.Cut(pair, "=")
		p := parameter{assigned: assigned}
		var err, wrong error
		p.name, err = url.QueryUnescape(name)
		p.value, wrong = url.QueryUnescape(value)
		// Some parsers read a semicolon as a separator.
		if err != nil || wrong != nil || strings.Contains(pair, ";") {
			return nil, false
		}
		p.list = p.name
		if i := strings.Index(p.name, "[]"); i >= 0 {
			p.list = p.name[:i+len("[]")]
		}
		if len(params) == maxParameters || strings.Count(p.name, "[") > maxParameterDepth || !markUses(uses, p.list) {
			return nil, false
		}
		params = append(params, p)
	}
	return params, true
}

// parameterUse is how a form uses a name: for a value, a list or an object.
type parameterUse uint8

const (
	useValue parameterUse = iota + 1
	useList
	useObject
)

// markUses records how name and its prefixes are used. It returns false if one of them was used in another way before.
func markUses(uses map[string]parameterUse, name string) bool {
	mark := func(name string, use parameterUse) bool {
		before := uses[name]
		uses[name] = use
		return before == 0 || before == use
	}
	for i, c := range name {
		if c != '[' || i == 0 {
			continue
		}
		use := useObject
		if name[i:] == "[]" {
			use = useList
		}
		if !mark(name[:i], use) {
			return false
		}
	}
	return strings.HasSuffix(name, "[]") || mark(name, useValue)
}
