package oncehttp

import (
	"net/http"
	"slices"

	"github.com/oncelib/once/internal/base/wire"
)

// AllowHeaders returns the headers of requests to the route that a browser asks a service of another origin for, by a preflight: the value of
// Access-Control-Allow-Headers. Those of the program itself, such as Authorization, come beside them.
func (c Config) AllowHeaders() []string {
	p := c.preset()
	names := []string{"Content-Type", "X-Request-Id", "X-Correlation-Id", wire.TraceHeader, wire.TimeoutHeader, wire.FirstSentHeader, wire.AttemptHeader}
	if c.Undoes != "" {
		names = append(names, wire.UndoesHeader)
	} else {
		names = append(names, p.KeyHeaders...)
	}
	return headerList(append(names, c.Compare.Headers...))
}

// ExposeHeaders returns the headers of answers of the route that scripts of another origin may read: the value of
// Access-Control-Expose-Headers.
func (c Config) ExposeHeaders() []string {
	p := *c.preset()
	names := []string{"Retry-After", "Link", "Location", "Etag", "Content-Location", "Content-Disposition", wire.RedactedHeader}
	for _, name := range p.names() {
		if *name != "" {
			names = append(names, *name)
		}
	}
	return headerList(append(names, c.Headers...))
}

func (c Config) preset() *Preset {
	if c.Preset != nil {
		return c.Preset
	}
	return DefaultPreset()
}

// headerList returns each name once, in the order of the alphabet.
func headerList(names []string) []string {
	names = slices.DeleteFunc(canonicalNames(names), func(name string) bool {
		return name == "" || name == "Host" || name == http.CanonicalHeaderKey("Set-Cookie")
	})
	slices.Sort(names)
	return slices.Compact(names)
}
