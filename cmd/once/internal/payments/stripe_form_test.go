package payments

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzStripeForm: what is accepted is within the limits and comes back from the database as
// it was; what is refused is the client's mistake, and leaves the key unused.
func FuzzStripeForm(f *testing.F) {
	for _, seed := range []string{
		"charge=ch_1&amount=100&reason=duplicate&metadata[a]=b", "metadata=", "metadata=x", "metadata[]=x", "metadata[a]=1&metadata[a]=2",
		"metadata%5Ba%5D=%C3%A9%0A", "metadata[a=x", "metadata[a][b]=x", "metadata[]]=x", "metadata[%00]=x", "metadata[a]=%ff", "amount=%zz", "reason=",
		"metadata[" + strings.Repeat("k", 41) + "]=x", "metadata[a]=" + strings.Repeat("x", 501), "charge=a;b", "&&=&",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		in, err := readStripeForm(r, "charge", "amount", "reason")
		var m metadata
		if err == nil {
			in.oneOf("reason", "duplicate")
			m, err = in.metadata(), in.wrong
		}
		if err != nil {
			var e *stripeError
			if !errors.As(err, &e) || !e.early || e.status/100 != 4 || e.Message == "" {
				t.Fatalf("refused with %#v", err)
			}
			return
		}
		var again metadata
		if err := again.Scan(m.stored()); err != nil || len(again) != len(m) || len(m) > maxMetadata {
			t.Fatalf("%v, stored as %s: %v", m, m.stored(), err)
		}
		for key, value := range m {
			if again[key] != value || key == "" || value == "" || utf8.RuneCountInString(key) > maxMetadataKey || utf8.RuneCountInString(value) > maxMetadataValue {
				t.Fatalf("%q: %q, stored as %s", key, value, m.stored())
			}
		}
	})
}
