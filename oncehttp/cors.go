package oncehttp

import (
	"slices"

	"github.com/oncelib/once/internal/base/wire"
)

// CORS returns what a browser must be told so that scripts of another origin can use the route: the headers of requests that they send, which
// Access-Control-Allow-Headers lists, and those of answers that they read, for Access-Control-Expose-Headers. Headers of the program
// itself, such as Authorization, come beside them. Middleware for CORS belongs outside of authentication, since a preflight has no credentials.
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

// headerList returns each name once, in the order of the alphabet.
func headerList(names []string) []string {
	names = slices.DeleteFunc(canonicalNames(names), func(name string) bool {
		return name == "" || name == "Host" || neverStored(name) // which scripts can neither set nor read
	})
	slices.Sort(names)
	return slices.Compact(names)
}
