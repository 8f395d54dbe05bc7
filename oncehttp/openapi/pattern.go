package openapi

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/oncelib/once/oncehttp"
)

// bySpecificity returns the patterns in alphabetical order, patterns with a method first.
func bySpecificity(routes map[string]oncehttp.Config) []string {
	patterns := slices.Sorted(maps.Keys(routes))
	slices.SortStableFunc(patterns, func(a, b string) int {
		a, _ = splitPattern(a)
		b, _ = splitPattern(b)
		return cmp.Compare(min(len(b), 1), min(len(a), 1))
	})
	return patterns
}

func hostOf(pattern string) string {
	host, _, _ := strings.Cut(pattern[strings.LastIndexAny(pattern, " \t")+1:], "/")
	return host
}

// splitPattern splits a pattern of [http.ServeMux] into method and path. It drops the host.
func splitPattern(pattern string) (method, path string) {
	if m, rest, ok := strings.Cut(pattern, " "); ok {
		method, pattern = m, strings.TrimLeft(rest, " \t")
	}
	if i := strings.IndexByte(pattern, '/'); i > 0 {
		pattern = pattern[i:]
	}
	return method, pattern
}

// unnamed matches the parameters of a path. Two paths that differ only in the names of parameters are the same path.
var unnamed = regexp.MustCompile(`\{[^/}]*\}`)

// pathParams returns a path in the form of OpenAPI, and its parameters.
func pathParams(path string) (string, []any) {
	path = strings.TrimSuffix(path, "{$}")
	var params []any
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if name, is := strings.CutPrefix(s, "{"); is {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			segments[i] = "{" + name + "}"
			params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	return strings.Join(segments, "/"), params
}
