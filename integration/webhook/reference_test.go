package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	dnyssrf "code.dny.dev/ssrf"
	"github.com/google/go-github/v74/github"
	"github.com/slack-go/slack"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripe "github.com/stripe/stripe-go/v85/webhook"

	"github.com/oncelib/once/webhook"
	"github.com/oncelib/once/webhook/ssrf"
)

// bodies are some of any length, also around the blocks of the hash.
func bodies() (list [][]byte) {
	for _, size := range []int{0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 1000, 20_000} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(rand.Uint32())
		}
		list = append(list, body)
	}
	return append(list, []byte(`{"id":"evt_1","type":"refund.succeeded"}`))
}

// changed returns other bytes.
func changed(body []byte) []byte { return append([]byte{'x'}, body...) }

// TestStandardLibrary: the reference library of Standard Webhooks verifies what is signed here, also with two secrets, and the other way round.
func TestStandardLibrary(t *testing.T) {
	for i, body := range bodies() {
		secret, other := webhook.NewSecret(), webhook.NewSecret()
		reference, err := standard.NewWebhook(secret)
		must(t, err)
		signer, err := webhook.NewSigner(other, secret)
		must(t, err)
		h := http.Header{}
		must(t, signer.Sign(h, "msg_1", time.Now(), body))
		if good, bad := reference.Verify(body, h), reference.Verify(changed(body), h); good != nil || bad == nil {
			t.Errorf("%d: the library verifies: %v, and of other bytes %v", i, good, bad)
		}
		now := time.Now()
		signature, err := reference.Sign("msg_2", now, body)
		must(t, err)
		h = http.Header{webhook.HeaderID: {"msg_2"}, webhook.HeaderTimestamp: {fmt.Sprint(now.Unix())}, webhook.HeaderSignature: {signature}}
		agree(t, i, webhook.Standard(other, secret), h, body)
	}
}

// TestStripeLibrary: what Stripe's library signs is verified here, and nothing else; a signature that is made here by its rules is verified there.
func TestStripeLibrary(t *testing.T) {
	const secret = "whsec_abcdefghijklmnop"
	for i, body := range bodies() {
		s := stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{Payload: body, Secret: secret})
		agree(t, i, webhook.Stripe("whsec_new", secret), http.Header{"Stripe-Signature": {s.Header}}, body)
	}
	if m, err := webhook.Stripe(secret).Verify(http.Header{"Stripe-Signature": {
		stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{Payload: []byte(`{"id":"evt_1","type":"a.b"}`), Secret: secret}).Header,
	}}, []byte(`{"id":"evt_1","type":"a.b"}`)); err != nil || m.ID != "evt_1" || m.Type != "a.b" {
		t.Errorf("%+v, %v", m, err)
	}
	// The same headers, good and bad, get the same answer of both.
	now := time.Now()
	body := []byte(`{"id":"evt_1"}`)
	sum := hex.EncodeToString(stripe.ComputeSignature(now, body, secret))
	old := now.Add(-10 * time.Minute)
	for _, header := range []string{
		fmt.Sprintf("t=%d,v1=%s", now.Unix(), sum),
		fmt.Sprintf("t=%d,v1=%s,v1=%s,v0=x", now.Unix(), strings.Repeat("0", 64), sum),
		fmt.Sprintf("t=%d,v0=%s", now.Unix(), sum),
		fmt.Sprintf("t=%d,v1=%s", old.Unix(), hex.EncodeToString(stripe.ComputeSignature(old, body, secret))),
		fmt.Sprintf("v1=%s", sum),
		fmt.Sprintf("t=%d", now.Unix()),
		fmt.Sprintf("t=%d,v1=", now.Unix()),
		fmt.Sprintf("t=%d,v1=%s", now.Unix(), sum[:62]),
		"",
	} {
		theirs := stripe.ValidatePayload(body, header, secret)
		_, ours := webhook.Stripe(secret).Verify(http.Header{"Stripe-Signature": {header}}, body)
		if (theirs == nil) != (ours == nil) {
			t.Errorf("%s: the library says %v, and this one %v", header, theirs, ours)
		}
	}
}

// TestGitHubLibrary: the library of GitHub and this one say the same of each signature.
func TestGitHubLibrary(t *testing.T) {
	const secret = "It's a Secret to Everybody"
	linked := webhook.Scheme{Source: "s", Header: "X-Hub-Signature-256", Prefix: "sha256="}.Verifier(secret)
	good := 0
	for i, body := range append(bodies(), []byte("Hello, World!")) {
		const published = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
		for _, signature := range []string{published, published[:40], published[7:], "sha256=", "sha256=zz", strings.ToUpper(published), ""} {
			theirs := github.ValidateSignature(signature, body, []byte(secret))
			for _, v := range []*webhook.Verifier{webhook.GitHub(secret), linked} {
				_, ours := v.Verify(http.Header{"X-Hub-Signature-256": {signature}}, body)
				if (theirs == nil) != (ours == nil) {
					t.Errorf("%d %s: the library says %v, and this one %v", i, signature, theirs, ours)
				}
				if ours == nil {
					good++
				}
			}
		}
	}
	if good != 2 {
		t.Errorf("%d were good, want that of the documentation, twice", good)
	}
}

// TestSlackLibrary: a library for Slack and this one say the same of each signature and each time.
func TestSlackLibrary(t *testing.T) {
	const secret = "8f742231b10e8888abcd99yyyzzz85a5"
	good := 0
	for i, body := range bodies() {
		for _, at := range []time.Time{time.Now(), time.Now().Add(-10 * time.Minute)} {
			stamp := fmt.Sprint(at.Unix())
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write([]byte("v0:" + stamp + ":"))
			mac.Write(body)
			sum := "v0=" + hex.EncodeToString(mac.Sum(nil))
			for _, signature := range []string{sum, sum[:40], "v0=", "v0=zz", ""} {
				h := http.Header{"X-Slack-Signature": {signature}, "X-Slack-Request-Timestamp": {stamp}}
				theirs, err := slack.NewSecretsVerifier(h, secret)
				if err == nil {
					_, _ = theirs.Write(body)
					err = theirs.Ensure()
				}
				_, ours := webhook.Slack("other", secret).Verify(h, body)
				if (err == nil) != (ours == nil) {
					t.Errorf("%d %s at %s: the library says %v, and this one %v", i, signature, stamp, err, ours)
				}
				if ours == nil {
					good++
				}
			}
		}
	}
	if good != len(bodies()) {
		t.Errorf("%d were good", good)
	}
}

// agree expects body to be verified, and other bytes not.
func agree(t *testing.T, i int, v *webhook.Verifier, h http.Header, body []byte) {
	t.Helper()
	_, good := v.Verify(h, body)
	_, bad := v.Verify(h, changed(body))
	if good != nil || bad == nil {
		t.Errorf("%d: %v, and of other bytes %v", i, good, bad)
	}
}

// TestSSRFOracle: the guard refuses each address that another library refuses, and what it refuses beyond that is known. The addresses are the first, the last and the
// neighbours of each special prefix, and many others.
func TestSSRFOracle(t *testing.T) {
	oracle := dnyssrf.New(dnyssrf.WithAnyPort())
	guard := &ssrf.Guard{AllowPorts: []uint16{443}}
	beyond := map[string]bool{"168.63.129.16": true} // Azure's metadata, at a public address
	refused, allowed := 0, 0
	for _, a := range addresses() {
		network := "tcp6"
		if a.Is4() {
			network = "tcp4"
		}
		to := netip.AddrPortFrom(a, 443).String()
		theirs, ours := oracle.Safe(network, to, nil), guard.Control(network, to, nil)
		switch {
		case theirs != nil && ours == nil:
			t.Errorf("%s is allowed, and the other library says %v", a, theirs)
		case theirs == nil && ours != nil && !beyond[a.String()]:
			t.Errorf("%s is refused (%v), and the other library allows it", a, ours)
		case ours == nil:
			allowed++
		default:
			refused++
		}
	}
	if refused < 1000 || allowed < 1000 {
		t.Errorf("vacuous: %d refused, %d allowed", refused, allowed)
	}
}

func addresses() (list []netip.Addr) {
	for text := range strings.FieldsSeq(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24
192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32 8.8.8.8/32
::/128 ::1/128 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28
2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8 2000::/3 2606:4700::/32`) {
		p := netip.MustParsePrefix(text).Masked()
		first, last := p.Addr(), lastOf(p)
		for _, a := range []netip.Addr{first.Prev(), first, first.Next(), last.Prev(), last, last.Next()} {
			if a.IsValid() {
				list = append(list, a)
			}
		}
	}
	for range 4000 {
		var b [16]byte
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		list = append(list, netip.AddrFrom4([4]byte(b[:4])), netip.AddrFrom16(b))
		b[0] = 0x20 | b[0]&0x1f
		list = append(list, netip.AddrFrom16(b))
	}
	return list
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < len(bytes)*8; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// TestPublishedSecrets: a secret in base64 without padding is one of no library.
func TestPublishedSecrets(t *testing.T) {
	unpadded := "whsec_" + base64.RawStdEncoding.EncodeToString(make([]byte, 32))
	_, theirs := standard.NewWebhook(unpadded)
	_, ours := webhook.NewSigner(unpadded)
	if theirs == nil || ours == nil {
		t.Errorf("%v, %v", theirs, ours)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
