package journal

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// kept has the headers that every journal stores.
var kept = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type",
	"If-Match", "If-None-Match", "If-Unmodified-Since", "Prefer", "User-Agent", "X-Idempotency-Key",
}

// allow returns the names of the headers that the journal stores, or an error if one of them may carry a secret.
func allow(more []string) ([]string, error) {
	names := append([]string{}, kept...)
	for _, name := range more {
		if secret(name) {
			return nil, fmt.Errorf("journal: the header %s may contain a secret, so the journal does not store it. Try: set the header in Options.Prepare when an intent is resumed", name)
		}
		names = append(names, textproto.CanonicalMIMEHeaderKey(name))
	}
	return names, nil
}

// secret reports whether the name of a header suggests credentials.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range [...]string{"auth", "cookie", "token", "secret", "password", "credential", "api-key", "apikey", "signature"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// filter returns the lines of h whose names are in names.
func filter(h http.Header, names []string) http.Header {
	out := make(http.Header)
	for _, name := range names {
		if lines := h[name]; len(lines) > 0 {
			out[name] = append([]string{}, lines...)
		}
	}
	return out
}

// Redact returns a copy of the parameter in. The copy contains only the data of the intent that a journal stores. Use Redact if you implement
// [Journal] yourself. The copy has only the headers that may be stored, and its URL has no user and no password. If in.Since is zero, Redact
// sets Since to the current time. Redact fails if Headers names a header that carries secrets.
func (c Config) Redact(in Intent) (Intent, error) {
	names, err := allow(c.Headers)
	if err != nil {
		return in, err
	}
	if in.URL, err = bare(in.URL); err != nil {
		return in, err
	}
	if in.Since.IsZero() {
		in.Since = time.Now()
	}
	in.Header = filter(in.Header, names)
	return in, nil
}

// bare returns a URL without its user, password and fragment. The fragment is not sent to a server.
func bare(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("journal: %q is not the URL of a request, because it has no host or cannot be parsed", address)
	}
	// A password in the URL must not be stored.
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return u.String(), nil
}
