package canonical

import (
	"mime"
	"net/url"
	"slices"
	"strings"
)

// A form with more parameters or more names inside of one another is not canonical: what
// is noted of each must not cost more than the form itself.
const (
	maxParameters     = 10_000
	maxParameterDepth = 32
)

// Form is a Preset.Body of package oncehttp: of two forms (application/x-www-form-urlencoded) that have
// the same parameters it makes the same bytes. The order of parameters does not count, nor
// how a character is escaped. The order within a list does: in a[]=1&a[]=2, and in
// a[][x]=1&a[][y]=2, where it also says what belongs together. A form that cannot be read,
// or that uses one name in two ways (a=1&a[b]=2), or that has more than 10000 parameters or
// more than 32 names inside of one another, is compared as it is.
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

// parameter is one of a form.
type parameter struct {
	name, value string
	assigned    bool   // with an equals sign: a is nothing, a= is empty
	list        string // the name, up to the [] of a list: the order of what has it in common counts
}

// formParameters returns the parameters of a form. It returns false if there is more than
// one way to read them.
func formParameters(body string) (params []parameter, ok bool) {
	uses := map[string]parameterUse{} // by name and by every name that it is inside of
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		name, value, assigned := strings.Cut(pair, "=")
		p := parameter{assigned: assigned}
		var err, wrong error
		p.name, err = url.QueryUnescape(name)
		p.value, wrong = url.QueryUnescape(value)
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

// parameterUse is what a name stands for.
type parameterUse uint8

const (
	useValue parameterUse = iota + 1
	useList
	useObject
)

// markUses notes what name and the names that it is inside of stand for. It returns false
// if one of them has stood for something else.
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
