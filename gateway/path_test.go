package gateway_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/gateway"
)

// habits are the ways in which a service reads a path.
type habits struct{ decodesFirst, cutsBefore, cutsAfter, backslash, collapses, decodesDots bool }

// allHabits returns all combinations.
func allHabits() (all []habits) {
	for i := range 1 << 6 {
		all = append(all, habits{i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0, i&16 != 0, i&32 != 0})
	}
	return all
}

// read returns the path that a service sees.
func (h habits) read(escaped string) string {
	decode := func(s string) string { s, _ = url.PathUnescape(s); return s }
	cut := func(s string, cuts bool) string {
		if cuts {
			s, _, _ = strings.Cut(s, ";")
		}
		return s
	}
	if h.decodesFirst {
		escaped = decode(escaped)
	}
	if h.backslash {
		escaped = strings.ReplaceAll(escaped, `\`, "/")
	}
	var left []string
	for s := range strings.SplitSeq(escaped, "/") {
		s = cut(s, h.cutsBefore)
		decoded := s
		if !h.decodesFirst {
			decoded = decode(s)
		}
		decoded = cut(decoded, h.cutsAfter)
		if h.decodesDots {
			s = decoded
		}
		switch {
		case s == "..":
			left = left[:max(0, len(left)-1)]
		case s == ".", decoded == "" && h.collapses:
		default:
			left = append(left, decoded)
		}
	}
	return "/" + strings.Join(slices.DeleteFunc(left, func(s string) bool { return s == "" }), "/")
}

// TestNoSpellingIsAWayAround: of all short paths, none reaches a hidden path or a route without its key, in whichever way the service reads it.
func TestNoSpellingIsAWayAround(t *testing.T) {
	t.Parallel()
	unreachable := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no service") }
	hidden := newGateway(t, "http://service", func(c *gateway.Config) { c.Dial, c.Hidden = unreachable, []string{"/pay"} })
	keyed := newGateway(t, "http://service", func(c *gateway.Config) {
		c.Dial, c.Routes = unreachable, []gateway.Route{{Pattern: "POST /pay"}, {Pattern: "POST /pay/{$}"}}
	})
	all, found := allHabits(), 0
	var try func(p string, more int)
	try = func(p string, more int) {
		if u, err := url.ParseRequestURI(p); err == nil && strings.Contains(p, "pay") {
			var isPay, isBelow bool
			for _, h := range all {
				seen := h.read(u.EscapedPath())
				isPay, isBelow = isPay || seen == "/pay", isBelow || seen == "/pay" || strings.HasPrefix(seen, "/pay/")
			}
			r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: http.NoBody, Host: "h"}
			if w := httptest.NewRecorder(); isBelow {
				found++
				if hidden.ServeHTTP(w, r); w.Code != http.StatusNotFound {
					t.Errorf("%s is not hidden: %d", p, w.Code)
				}
			}
			if w := httptest.NewRecorder(); isPay {
				if keyed.ServeHTTP(w, r); w.Code != http.StatusBadRequest {
					t.Errorf("%s needs no key: %d", p, w.Code)
				}
			}
		}
		for _, part := range []string{"/", "..", ".", ";", "%2F", "%3b", "%2e%2e", `\`, "x", "pay"} {
			if more > 0 && (part != "pay" || !strings.Contains(p, "pay")) {
				try(p+part, more-1)
			}
		}
	}
	try("/", 4)
	if found < 500 {
		t.Errorf("only %d spellings were found", found)
	}
}
