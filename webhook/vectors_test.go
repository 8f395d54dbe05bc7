package webhook

import (
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// vector is a request in testdata/vectors.json, which receivers in any language can read.
type vector struct {
	Name, Scheme string
	Secrets      []string
	Now          int64
	Headers      [][2]string
	Body         string
	Valid        bool
	Error        string // "signature" or "stale"
	ID, Type     string
	Table        struct{ Source, Header, Prefix, Encoding, Hash, Signed, Timestamp, ID, Type string }
}

func vectors(tb testing.TB) (list []vector) {
	tb.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		tb.Fatal(err)
	}
	return list
}

func (c *vector) header() http.Header {
	h := http.Header{}
	for _, line := range c.Headers {
		h.Add(line[0], line[1])
	}
	return h
}

func (c *vector) verifier() *Verifier {
	named := map[string]func(...string) *Verifier{"standard": Standard, "stripe": Stripe, "github": GitHub, "shopify": Shopify, "slack": Slack}
	makeOne := named[c.Scheme]
	if makeOne == nil {
		s := Scheme{
			Source: c.Table.Source, Header: c.Table.Header, Prefix: c.Table.Prefix, Signed: c.Table.Signed,
			Timestamp: c.Table.Timestamp, ID: c.Table.ID, Type: c.Table.Type,
		}
		if c.Table.Encoding == "base64" {
			s.Encoding = Base64
		}
		if c.Table.Hash == "sha512" {
			s.Hash = sha512.New
		}
		makeOne = s.Verifier
	}
	v := makeOne(c.Secrets...)
	v.Now = func() time.Time { return time.Unix(c.Now, 0) }
	return v
}

// TestVectorsAreVerified: of the good and bad requests in testdata/vectors.json, those that are good are verified, and no others.
func TestVectorsAreVerified(t *testing.T) {
	list := vectors(t)
	good := 0
	for _, c := range list {
		t.Run(c.Scheme+" "+c.Name, func(t *testing.T) {
			m, err := c.verifier().Verify(c.header(), []byte(c.Body))
			want := map[string]error{"": nil, "signature": ErrSignature, "stale": ErrStale}[c.Error]
			if !errors.Is(err, want) || c.Valid != (err == nil) {
				t.Fatalf("%v, want %v", err, want)
			}
			if err != nil {
				if m.ID != "" || m.Payload != nil {
					t.Errorf("the message of a refused request is %+v", m)
				}
				return
			}
			good++
			if m.ID != c.ID || c.Type != m.Type || string(m.Payload) != c.Body || m.Source == "" || m.Topic != m.Source {
				t.Errorf("%+v", m)
			}
		})
	}
	if bad := len(list) - good; good < 30 || bad < 40 {
		t.Errorf("vacuous: %d good and %d bad", good, bad)
	}
}

// TestEveryByteIsSigned: whichever byte of a body, of a signature or of a signed header is changed, the request is refused.
func TestEveryByteIsSigned(t *testing.T) {
	tried := 0
	for _, c := range vectors(t) {
		if !c.Valid || strings.Contains(c.Name, "among") || strings.Contains(c.Name, "twenty") || strings.Contains(c.Name, "two") || strings.Contains(c.Name, "both") || strings.Contains(c.Name, "v1a, and") {
			continue // the header has more than one signature
		}
		v := c.verifier()
		refused := func(what string, h http.Header, body string) {
			t.Helper()
			tried++
			if _, err := v.Verify(h, []byte(body)); err == nil {
				t.Errorf("%s %s: accepted with another %s", c.Scheme, c.Name, what)
			}
		}
		for i := range c.Body {
			refused(fmt.Sprint("byte of the body ", i), c.header(), c.Body[:i]+string(c.Body[i]^1)+c.Body[i+1:])
		}
		refused("end", c.header(), c.Body+" ")
		for name, lines := range c.header() {
			if name != v.form.header && name != v.form.stamp.header && (name != v.form.id.header || c.Scheme != "standard") {
				continue // not signed
			}
			for i := range lines[0] {
				if lines[0][i] == '=' {
					continue // padding
				}
				h := c.header()
				h[name] = []string{lines[0][:i] + string(lines[0][i]^1) + lines[0][i+1:]}
				refused(fmt.Sprint("byte of ", name, " ", i), h, c.Body)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("vacuous: %d", tried)
	}
}
