package oncehttp

import (
	"slices"

	"github.com/oncelib/once/internal/base/wire"
)

// CORS returns the header names that your CORS configuration must list, so that scripts of another origin can use the route. The result allow has
// request headers, for Access-Control-Allow-Headers; the result expose has answer headers, for Access-Control-Expose-Headers. Add the headers of
// your program, such as Authorization. Put CORS middleware outside of authentication, because a preflight request has no credentials.
func (c Config) CORS() (allow, expose []string) {
	p := DefaultPreset()
	if c.Preset != nil {
		p = c.Preset
	}
	allow = []string{"Content-Type", "X-Request-Id", "X-Correlation-Id", wire.TraceHeader, wire.TimeoutHeader, wire.FirstSentHeader, wire.AttemptHeader}
	if c.Undoes != "" {
		allow = append(allow, wire.UndoesHeader)
	} else {
		allow = append(allow, p.KeyHeaders...)
	}
	expose = []string{"Retry-After", "Link", "Location", "Etag", "Content-Location", "Content-Disposition", wire.RedactedHeader}
	for _, name := range p.names() {
		expose = append(expose, *name)
	}
	return headerList(append(allow, c.Compare.Headers...)), headerList(append(expose, c.Headers...))
}

// headerList returns the canonical names in alphabetical order, each once.
func headerList(names []string) []string {
	names = slices.DeleteFunc(canonicalNames(names), func(name string) bool {
		return name == "" || name == "Host" || neverStored(name) // a script can neither set nor read such a header
	})
	slices.Sort(names)
	return slices.Compact(names)
}
