package oncehttp

import (
	"net/url"
	"slices"
	"strings"

	"github.com/oncelib/once/internal/base/jsonpointer"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/store"
)

// redacted returns res without the values that Config.Redact names, and with a header that names the removed values. It returns false if the body is
// not JSON, because such an answer must not be stored.
func (p *plan) redacted(res store.Result) (redacted store.Result, readable bool) {
	if len(p.redact) == 0 || len(res.Body) == 0 {
		return res, true
	}
	spans, _, ok := jsonpointer.Find(res.Body, p.redact)
	if !ok {
		return res, false
	}
	var gone []string
	for i, at := range spans {
		if len(at) > 0 {
			gone = append(gone, wire.QuoteKey((&url.URL{Fragment: p.Redact[i]}).EscapedFragment())) // the URI fragment form of RFC 6901, section 6, which is ASCII
		}
	}
	if len(gone) == 0 {
		return res, true
	}
	res.Body = jsonpointer.Null(res.Body, spans)
	res.Header = append(slices.Clip(res.Header), store.Field{Name: wire.RedactedHeader, Value: strings.Join(gone, ", ")})
	return res, true
}
