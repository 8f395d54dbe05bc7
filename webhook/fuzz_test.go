package webhook

// The tests with databases are in integration/hooks, integration/hookrelay and integration/webhook: "make test-of DIR=webhook" runs them after these.

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzUnsignedHeadersAreRefused: whatever the headers and the body are, a request that was not signed with the secret is refused.
func FuzzUnsignedHeadersAreRefused(f *testing.F) {
	for _, c := range vectors(f) {
		h := c.header()
		for name := range h {
			f.Add(c.Scheme, name, h.Get(name), []byte(c.Body))
		}
	}
	unknown := NewSecret()
	named := map[string]*Verifier{
		"standard": Standard(unknown), "stripe": Stripe(unknown), "github": GitHub(unknown), "shopify": Shopify(unknown), "slack": Slack(unknown),
	}
	f.Fuzz(func(t *testing.T, scheme, name, value string, body []byte) {
		v := named[scheme]
		if v == nil {
			v = named["standard"]
		}
		h := signedBy(t, body, testSecret)
		h["Stripe-Signature"] = []string{"t=1,v1=" + strings.Repeat("0", 64)}
		h["X-Slack-Request-Timestamp"] = []string{"1"}
		h[name] = []string{value}
		h[http.CanonicalHeaderKey(name)] = append(h[http.CanonicalHeaderKey(name)], value)
		if m, err := v.Verify(h, body); !errors.Is(err, ErrSignature) || m.ID != "" {
			t.Fatalf("%+v, %v", m, err)
		}
		// What is around a valid signature does not hide it, and does not change what was verified.
		good := signedBy(t, body, testSecret)
		good[HeaderSignature] = append(good[HeaderSignature], value)
		if m, err := Standard(testSecret).Verify(good, body); err == nil && (m.ID != "msg_1" || !bytes.Equal(m.Payload, body)) {
			t.Fatalf("%+v", m)
		}
	})
}

// FuzzSchemeRefusesUnsigned: a wrong table of a scheme panics and says what to change. The verifier of a right table refuses each request without a valid signature, and never panics.
func FuzzSchemeRefusesUnsigned(f *testing.F) {
	f.Add("Sig", "v0=", "v0:{timestamp}:{body}", "Sent", "X-Id", uint8(0), "v0=00", []byte("{}"))
	f.Add("Sig", "", "{body}", "t=", ".event.id", uint8(1), "t=1,t=2", []byte(`{"event":{"id":"1"}}`))
	f.Fuzz(func(t *testing.T, header, prefix, signed, stamp, id string, encoding uint8, value string, body []byte) {
		s := Scheme{Source: "s", Header: header, Prefix: prefix, Signed: signed, Timestamp: stamp, ID: id, Type: id, Encoding: Encoding(encoding)}
		var v *Verifier
		if text := panicOf(func() { v = s.Verifier("secret") }); text != "<nil>" {
			if !strings.HasPrefix(text, "webhook: Scheme.Verifier: ") {
				t.Fatal(text)
			}
			return
		}
		h := http.Header{}
		for _, name := range []string{header, stamp, id} {
			h.Add(name, value)
		}
		if _, err := v.Verify(h, body); !errors.Is(err, ErrSignature) {
			t.Fatal(err)
		}
	})
}

// FuzzMemberIsWhatEncodingJSONFinds: in JSON whose names are different, what is found by a path is what encoding/json finds; in other bytes it is nothing, or a text of them.
func FuzzMemberIsWhatEncodingJSONFinds(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","type":"t"}`, ` { "a" : [1,{"id":"no"},"}\"]"] , "id" : "\u0031\"" } `, `{"event":{"id":12.5e1}}`, `{"\u0069d":"1"}`, `{"id":`, `{"id"`, `{"id":nul`,
		`{"a":"\\","id":"1"}`, `{"id":"\\"}`, `{}`, `[]`, `{"id":{}}`, `{"id":true}`, `{"a":"`, `{"id":}`, `{"":"x","id":"1"}`,
	} {
		f.Add([]byte(seed), "id")
		f.Add([]byte(seed), "event.id")
	}
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		got := member(body, path)
		if path == "" || !json.Valid(body) || !utf8.Valid(body) || twice(body) {
			return
		}
		var value any
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		for rest := path; rest != ""; {
			var name string
			name, rest, _ = strings.Cut(rest, ".")
			object, _ := value.(map[string]any)
			value = object[name]
		}
		want := ""
		switch text := value.(type) {
		case string:
			want = text
		case json.Number:
			want = text.String()
		}
		if got != want && utf8.ValidString(path) {
			t.Fatalf("%q, encoding/json finds %q", got, want)
		}
	})
}

// twice reports whether an object in body may have two members of one name.
func twice(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	seen := map[json.Token]bool{}
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if text, ok := token.(string); ok {
			if seen[text] {
				return true
			}
			seen[text] = true
		}
	}
}

// TestTimestampsOfTwoForms: what is no time of one of the two forms is none.
func TestTimestampsOfTwoForms(t *testing.T) {
	for stamp, want := range map[string]int64{"0": 0, "1614265330": 1614265330, "2021-02-25T15:02:10Z": 1614265330, "2021-02-25T16:02:10.000+01:00": 1614265330} {
		if at, ok := timeOf(stamp); !ok || at.Unix() != want {
			t.Errorf("%s: %v %v", stamp, at, ok)
		}
	}
	for _, stamp := range []string{"", "+1", "-1", "1.5", "0x10", "1614265330000", "99999999999999999999999", "1_000", " 1", "2021-02-25"} {
		if at, ok := timeOf(stamp); ok {
			t.Errorf("%q is %v", stamp, at.Format(time.RFC3339))
		}
	}
}
