package webhook

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// These constants are the names of the headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"        // the ID of the event, the same in every delivery of the event to an endpoint
	HeaderTimestamp = "Webhook-Timestamp" // the time of this delivery
	HeaderSignature = "Webhook-Signature"
)

// Prefixes of keys and of signatures of the Standard scheme.
const (
	secretPrefix  = "whsec_"
	privatePrefix = "whsk_"
	publicKeyName = "whpk_"
	macPrefix     = "v1,"
	publicPrefix  = "v1a,"

	minSecret, maxSecret = 16, 256 // bytes; the specification asks for 24 to 64 bytes of a new secret
)

// Standard returns a verifier of Standard Webhooks 1.0 (standardwebhooks.com), which Svix, OpenAI, Supabase and
// many others send. For signatures of version v1, a secret is base64, with or without "whsec_" before it. For
// signatures of version v1a, a secret is a public key that begins with "whpk_". Empty secrets are ignored.
// Standard panics if all secrets are empty, or if a secret is invalid.
//
// If several senders of Standard Webhooks send to one inbox, set another [Verifier.Source] for each sender.
func Standard(secrets ...string) *Verifier {
	f := standardForm()
	for i, secret := range secrets {
		if secret == "" {
			continue
		}
		if err := f.addKey(secret); err != nil {
			panic(fmt.Sprintf("webhook: Standard: secret %d: %v", i+1, err))
		}
	}
	if len(f.keys)+len(f.publicKeys) == 0 {
		panic("webhook: Standard: the secret is missing or empty. Try: the signing secret that the sender shows for this endpoint")
	}
	return &Verifier{Source: "webhook", form: f}
}

func standardForm() form {
	return form{
		header: HeaderSignature, prefix: macPrefix, separators: " ", encoding: Base64, redelivery: 75*time.Hour + 36*time.Minute,
		parts: []part{{kind: partID}, {text: "."}, {kind: partStamp}, {text: "."}, {kind: partBody}},
		stamp: place{header: HeaderTimestamp}, id: place{header: HeaderID}, typ: place{path: "type"},
	}
}

func (f *form) addKey(secret string) error {
	text, public := strings.CutPrefix(secret, publicKeyName)
	switch {
	case strings.HasPrefix(secret, privatePrefix):
		return errors.New("the secret is a private key, which only the sender may have. Try: the public key, which begins with " + publicKeyName)
	case public:
		bytes, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(bytes) != ed25519.PublicKeySize {
			return fmt.Errorf("the secret is not a valid public key. Try: %s, followed by %d bytes in base64", publicKeyName, ed25519.PublicKeySize)
		}
		f.publicKeys = append(f.publicKeys, publicKey(bytes))
		return nil
	}
	bytes, err := secretBytes(secret)
	if err == nil {
		f.keys = append(f.keys, newKey(sha256.New, bytes))
	}
	return err
}

// secretBytes decodes a secret of an HMAC. The error does not contain the secret.
func secretBytes(secret string) ([]byte, error) {
	bytes, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil || len(bytes) < minSecret || len(bytes) > maxSecret {
		return nil, fmt.Errorf("the secret does not have the format of Standard Webhooks. Try: %s, followed by %d to %d bytes in base64, or the function of this package for the sender, such as webhook.Stripe", secretPrefix, minSecret, maxSecret)
	}
	return bytes, nil
}

// NewSecret returns a secret of 32 random bytes for signatures of version v1 (HMAC with SHA-256); the text begins
// with "whsec_". Make a new secret for each endpoint.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // crypto/rand never returns an error
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// publicKeyOf returns the public key of a private key, or "" if the secret is not a private key.
func publicKeyOf(secret string) string {
	text, private := strings.CutPrefix(secret, privatePrefix)
	bytes, err := base64.StdEncoding.DecodeString(text)
	if !private || err != nil || len(bytes) != ed25519.PrivateKeySize {
		return ""
	}
	return publicKeyName + base64.StdEncoding.EncodeToString(bytes[ed25519.SeedSize:])
}

// NewKeyPair returns a private key ("whsk_") for signatures of version v1a (Ed25519), and the public key
// ("whpk_") for the receivers.
func NewKeyPair() (private, public string) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic("webhook: NewKeyPair: " + err.Error()) // the random bytes of the system never fail
	}
	return privatePrefix + base64.StdEncoding.EncodeToString(priv), publicKeyName + base64.StdEncoding.EncodeToString(pub)
}

// Signer signs requests by the Standard scheme, with one or more secrets; during a rotation, the Signer has
// the new secret and the old secret. The methods of Signer can be called concurrently.
type Signer struct {
	form     form
	privates []func(text []byte) []byte // functions, so that a log line with the Signer shows no key
}

// NewSigner returns a signer. For a signature of version v1, a secret is base64, with or without "whsec_"
// before it. For a signature of version v1a, a secret is a private key that begins with "whsk_". The
// error does not contain the secret.
func NewSigner(secrets ...string) (*Signer, error) {
	s := &Signer{form: standardForm()}
	for i, secret := range secrets {
		if err := s.add(secret); err != nil {
			return nil, fmt.Errorf("webhook: NewSigner: secret %d: %w", i+1, err)
		}
	}
	if len(secrets) == 0 || len(secrets) > maxSignatures {
		return nil, fmt.Errorf("webhook: NewSigner: %d secrets are given. Try: one secret, or two secrets during a rotation", len(secrets))
	}
	return s, nil
}

func (s *Signer) add(secret string) error {
	if strings.HasPrefix(secret, publicKeyName) {
		return errors.New("the secret is a public key, which cannot sign. Try: the private key, which begins with " + privatePrefix)
	}
	text, private := strings.CutPrefix(secret, privatePrefix)
	if !private {
		return s.form.addKey(secret)
	}
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(bytes) != ed25519.PrivateKeySize {
		return fmt.Errorf("the secret is not a valid private key. Try: %s, followed by %d bytes in base64, which are the seed and the public key", privatePrefix, ed25519.PrivateKeySize)
	}
	priv := ed25519.NewKeyFromSeed(bytes[:ed25519.SeedSize])
	// A key with a wrong second half would sign, but no receiver could verify the signature.
	if !priv.Equal(ed25519.PrivateKey(bytes)) {
		return errors.New("the secret is not a valid private key: the second half of the secret is not the public key of the first half")
	}
	s.privates = append(s.privates, func(text []byte) []byte { return ed25519.Sign(priv, text) })
	return nil
}

// Sign sets the headers Webhook-Id, Webhook-Timestamp and Webhook-Signature of a request that delivers body. The
// parameter id must be the same in every delivery of an event to one endpoint. The parameter at is the time of
// this delivery. The request must send exactly the bytes of body.
func (s *Signer) Sign(header http.Header, id string, at time.Time, body []byte) error {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == '.' || r > '~' }) {
		return fmt.Errorf("webhook: Sign: the ID %q is empty, or contains a dot, a blank or a character that is not ASCII. Try: a UUID", id)
	}
	if at.Unix() < 0 {
		return errors.New("webhook: Sign: the time is before 1970. Try: the time of this delivery")
	}
	what := signed{id: id, stamp: strconv.FormatInt(at.Unix(), 10), body: body}
	signatures := make([]byte, 0, 128)
	for _, k := range s.form.keys {
		m := k.sum(&s.form, &what)
		signatures = base64.StdEncoding.AppendEncode(append(signatures, macPrefix...), m.sum)
		signatures = append(signatures, ' ')
		// Not earlier, because the signature was read from m.
		k.pool.Put(m)
	}
	if len(s.privates) > 0 {
		text := append(what.appendHead(nil, &s.form), body...)
		for _, sign := range s.privates {
			signatures = base64.StdEncoding.AppendEncode(append(signatures, publicPrefix...), sign(text))
			signatures = append(signatures, ' ')
		}
	}
	// The names are in canonical form, so the header need not convert them.
	header[HeaderID] = []string{id}
	header[HeaderTimestamp] = []string{what.stamp}
	header[HeaderSignature] = []string{string(signatures[:len(signatures)-1])}
	return nil
}
