package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// signedBy returns the headers of a delivery now.
func signedBy(tb testing.TB, body []byte, secrets ...string) http.Header {
	tb.Helper()
	s, err := NewSigner(secrets...)
	if err != nil {
		tb.Fatal(err)
	}
	h := http.Header{}
	if err := s.Sign(h, "msg_1", time.Now(), body); err != nil {
		tb.Fatal(err)
	}
	return h
}

// TestSignerAndVerifier: what is signed with one or two keys of either kind is verified by a receiver that knows one of them, and by no other.
func TestSignerAndVerifier(t *testing.T) {
	private, public := NewKeyPair()
	otherPrivate, otherPublic := NewKeyPair()
	secret, other := NewSecret(), NewSecret()
	body := []byte(`{"type":"refund.succeeded"}`)
	for name, c := range map[string]struct {
		sign, good, bad []string
	}{
		"a secret":               {[]string{secret}, []string{secret}, []string{other, public}},
		"a private key":          {[]string{private}, []string{public}, []string{otherPublic, secret}},
		"two secrets":            {[]string{secret, other}, []string{secret, other}, []string{public}},
		"two private keys":       {[]string{private, otherPrivate}, []string{public, otherPublic}, []string{secret}},
		"a key and a secret":     {[]string{secret, private}, []string{secret, public}, []string{other, otherPublic}},
		"a secret without whsec": {[]string{strings.TrimPrefix(secret, secretPrefix)}, []string{secret}, []string{other}},
	} {
		t.Run(name, func(t *testing.T) {
			h := signedBy(t, body, c.sign...)
			if n := len(strings.Fields(h.Get(HeaderSignature))); n != len(c.sign) {
				t.Errorf("%d signatures of %d keys", n, len(c.sign))
			}
			for _, known := range c.good {
				for _, v := range []*Verifier{Standard(known), Standard(other, "", known), Standard(known, otherPublic)} {
					if m, err := v.Verify(h, body); err != nil || m.ID != "msg_1" || m.Type != "refund.succeeded" {
						t.Errorf("%+v, %v", m, err)
					}
				}
			}
			if _, err := Standard(c.bad...).Verify(h, body); !errors.Is(err, ErrSignature) {
				t.Error(err)
			}
		})
	}
}

// TestSecretsOnlySign: a secret is in no error, in no panic, and in nothing that is printed.
func TestSecretsOnlySign(t *testing.T) {
	private, public := NewKeyPair()
	good := []string{testSecret, private}
	s, err := NewSigner(good...)
	if err != nil {
		t.Fatal(err)
	}
	v := Standard(testSecret, public)
	_, refused := v.Verify(signedBy(t, nil, NewSecret()), nil)
	texts := []string{fmt.Sprintf("%v %+v %#v %v", v, v, v, refused), fmt.Sprintf("%v %+v %#v", s, s, s), fmt.Sprintf("%+v", s.form)}
	raw, _ := secretBytes(testSecret)
	for _, wrong := range []string{testSecret[:20], private, private[:40], public[:20], "hunter2hunter2", secretPrefix + "!" + testSecret[7:]} {
		texts = append(texts, panicOf(func() { Standard(wrong) }))
		if wrong != private {
			_, err := NewSigner(wrong)
			if err == nil {
				t.Errorf("a signer takes %q", wrong)
			}
			texts = append(texts, fmt.Sprint(err))
		}
	}
	for _, text := range texts {
		for _, secret := range []string{testSecret[6:14], private[5:13], "hunter2", strings.Trim(fmt.Sprintf("%d", raw[:4]), "[]"), string(raw)} {
			if text == "" || strings.Contains(text, secret) {
				t.Errorf("%q has a secret, or is empty", text)
			}
		}
	}
}

func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

// TestInvalidSchemes: a table or a secret that can verify nothing, or would verify too much, panics with what to do.
func TestInvalidSchemes(t *testing.T) {
	good := Scheme{Source: "s", Header: "Sig"}
	with := func(change func(*Scheme)) func() {
		s := good
		change(&s)
		return func() { s.Verifier("secret") }
	}
	for name, f := range map[string]func(){
		"no source":              with(func(s *Scheme) { s.Source = "" }),
		"no header":              with(func(s *Scheme) { s.Header = "" }),
		"no body":                with(func(s *Scheme) { s.Signed = "v0" }),
		"two bodies":             with(func(s *Scheme) { s.Signed = "{body}{body}" }),
		"an unknown mark":        with(func(s *Scheme) { s.Signed = "{url}{body}" }),
		"an open mark":           with(func(s *Scheme) { s.Signed = "{body" }),
		"an unsigned timestamp":  with(func(s *Scheme) { s.Timestamp = "Sent" }),
		"a timestamp of nowhere": with(func(s *Scheme) { s.Signed = "{timestamp}{body}" }),
		"a timestamp in a body":  with(func(s *Scheme) { s.Signed, s.Timestamp = "{timestamp}{body}", ".at" }),
		"an id in a body":        with(func(s *Scheme) { s.Signed, s.ID = "{id}{body}", ".id" }),
		"a prefix with a comma":  with(func(s *Scheme) { s.Prefix = "v1," }),
		"an unknown encoding":    with(func(s *Scheme) { s.Encoding = 7 }),
		"no secret":              func() { good.Verifier() },
		"an empty secret":        func() { Stripe("", "") },
		"no secret of Standard":  func() { Standard("") },
		"a password":             func() { Standard("hunter2") },
		"a short secret":         func() { Standard("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 15))) },
	} {
		if text := panicOf(f); !strings.Contains(text, "webhook: ") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if text := panicOf(func() { good.Verifier("", "old") }); text != "<nil>" {
		t.Errorf("an empty secret beside another one: %s", text)
	}
}

// TestSignRefuses: an id that would make two requests out of one signature is not signed.
func TestSignRefuses(t *testing.T) {
	s, err := NewSigner(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "a.b", "a b", "a\nb", "ü"} {
		if h := (http.Header{}); s.Sign(h, id, time.Now(), nil) == nil || len(h) > 0 {
			t.Errorf("%q is signed: %v", id, h)
		}
	}
	if s.Sign(http.Header{}, "1", time.Unix(-1, 0), nil) == nil {
		t.Error("a time before 1970 is signed")
	}
	if _, err := NewSigner(); err == nil {
		t.Error("a signer without a secret")
	}
}

// TestSignsLikeTheReference: the vectors of the reference libraries and of the specification.
func TestSignsLikeTheReference(t *testing.T) {
	const private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	s, err := NewSigner(testSecret, private)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if err := s.Sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)); err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= " +
		"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
	if h.Get(HeaderSignature) != want || h.Get(HeaderTimestamp) != "1614265330" || h.Get(HeaderID) != "msg_p5jXN8AQM9LWM0D4loKWxJek" {
		t.Errorf("%v", h)
	}
}

// TestVerifyAtOnce: the pooled states of one verifier do not mix requests.
func TestVerifyAtOnce(t *testing.T) {
	v := Standard(NewSecret(), testSecret)
	type request struct {
		h    http.Header
		body []byte
	}
	requests := make([]request, 8)
	for i := range requests {
		body := []byte(strings.Repeat(fmt.Sprint(i), 100+i))
		requests[i] = request{signedBy(t, body, testSecret), body}
	}
	failed := make(chan error, len(requests))
	for i := range requests {
		go func() {
			own, other := requests[i], requests[(i+1)%len(requests)]
			var err error
			for range 500 {
				_, good := v.Verify(own.h, own.body)
				if _, bad := v.Verify(own.h, other.body); good != nil || bad == nil {
					err = errors.Join(good, errors.New("mixed"))
				}
			}
			failed <- err
		}()
	}
	for range requests {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkVerifyOfASignature(b *testing.B) {
	for _, size := range []int{1000, 20_000} {
		body := []byte(`{"type":"refund.succeeded","data":"` + strings.Repeat("x", size-36) + `"}`)
		h := signedBy(b, body, testSecret)
		raw, err := secretBytes(testSecret)
		if err != nil {
			b.Fatal(err)
		}
		v := Standard(testSecret)
		b.Run(fmt.Sprint("webhook/", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(h, body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("hmac/", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := hmac.New(sha256.New, raw)
				m.Write(body)
				m.Sum(nil)
			}
		})
	}
}
