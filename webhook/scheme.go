package webhook

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"time"
)

// Encoding says how the bytes of a signature are written in a header.
type Encoding uint8

// These are the encodings of a signature.
const (
	Hex    Encoding = iota // hexadecimal, in lower or upper case
	Base64                 // base64 with the standard alphabet and padding
)

// Scheme describes how a sender signs with an HMAC, for senders that have no function in this package.
//
//	linear := webhook.Scheme{Source: "linear", Header: "Linear-Signature", ID: "Linear-Delivery", Type: ".type"}.Verifier(secret)
//
// The fields Timestamp, ID and Type say where a request contains its time, the ID of its event and the type of
// its event. Each of the fields Timestamp, ID and Type can be the name of a header. ID and Type can also be a
// path such as ".event.id" to a string or number in the JSON body.
type Scheme struct {
	// Source names the sender. Source becomes the source and the topic of the sender's messages.
	// Required.
	Source string

	// Header is the name of the header with the signature. The header may contain several signatures, separated
	// by commas, semicolons or blanks. A request may also have several headers with this name. Required.
	Header string

	// Prefix is the text before each signature, such as "sha256=". A part of the header that does not begin with
	// Prefix is ignored.
	Prefix string

	// Encoding is the encoding of a signature. Default: [Hex].
	Encoding Encoding

	// Hash is the hash function of the HMAC. Default: [sha256.New].
	Hash func() hash.Hash

	// Signed is the text that the sender signs. In Signed, {body} means the raw bytes of the body, {timestamp}
	// means the time of the request, and {id} means the ID of the event. An example is "v0:{timestamp}:{body}".
	// Default: "{body}".
	Signed string

	// Timestamp says where the request contains the time at which it was sent, in seconds since 1970 or as in RFC 3339. Timestamp is the
	// name of a header; or, if the time is a part of the signature header, the prefix of this part, such as "t=". If Timestamp is a prefix,
	// the time follows the prefix in the header that the field Header names. If Timestamp is set, the field Signed must contain {timestamp},
	// because an attacker could change a time that is not signed. Default: no timestamp; then a copy of a request is accepted at any later
	// time.
	Timestamp string

	// ID says where a request contains the ID of its event: ID is the name of a header, or a path in the JSON
	// body. The ID of an event must be the same when the sender sends the event again. [Receive] requires ID.
	ID string

	// Type says where a request contains the type of its event: Type is the name of a header, or a path in the
	// JSON body.
	Type string

	// Redelivery is how long the sender tries to deliver an event. [Receive] panics if the inbox deletes an ID
	// before the time Redelivery has passed. Default: not checked.
	Redelivery time.Duration
}

// Verifier returns a verifier of requests that were signed with any of secrets. The bytes of the secret are the
// key of the HMAC. Empty secrets are ignored, so that the configuration variable of an old secret may be empty.
// Verifier panics if all secrets are empty, or if s is invalid.
func (s Scheme) Verifier(secrets ...string) *Verifier {
	f, err := s.form()
	if err != nil {
		panic("webhook: Scheme.Verifier: " + err.Error())
	}
	f.keys = keysOf("Scheme.Verifier", s.Hash, secrets)
	return &Verifier{Source: s.Source, form: f}
}

// keysOf returns a key for each secret that is not empty.
func keysOf(function string, h func() hash.Hash, secrets []string) (keys []*key) {
	if h == nil {
		h = sha256.New
	}
	for _, secret := range secrets {
		if secret != "" {
			keys = append(keys, newKey(h, []byte(secret)))
		}
	}
	if len(keys) == 0 {
		panic("webhook: " + function + ": the secret is missing or empty. Try: the signing secret that the sender shows for this endpoint")
	}
	return keys
}

// form is a scheme in the form in which a verifier uses it.
type form struct {
	header     string // a name in canonical form, like all names here
	prefix     string
	separators string
	encoding   Encoding
	parts      []part
	stamp      place // the place of the timestamp
	stampItem  string
	id, typ    place
	redelivery time.Duration
	keys       []*key
	publicKeys []publicKey // of the Standard scheme
	answer     func(body []byte) []byte
}

// place is the name of a header, or a path in the body.
type place struct{ header, path string }

func placeOf(s string) place {
	if path, ok := strings.CutPrefix(s, "."); ok {
		return place{path: path}
	}
	return place{header: http.CanonicalHeaderKey(s)}
}

func (p place) isZero() bool { return p == place{} }

// read returns the value at p. A header that occurs twice counts as missing: the signature may cover one value,
// and the handler may read the other one.
func (p place) read(header http.Header, body []byte) string {
	if p.path != "" {
		return member(body, p.path)
	}
	if lines := header[p.header]; len(lines) == 1 {
		return lines[0]
	}
	return ""
}

// part is a piece of the signed text.
type part struct {
	kind partKind
	text string // the text of a literal
}

type partKind uint8

const (
	literal partKind = iota
	partID
	partStamp
	partBody
)

var marks = map[string]partKind{"id": partID, "timestamp": partStamp, "body": partBody}

func (s Scheme) form() (form, error) {
	f := form{
		header: http.CanonicalHeaderKey(s.Header), prefix: s.Prefix, separators: ",; ", encoding: s.Encoding,
		stamp: placeOf(s.Timestamp), id: placeOf(s.ID), typ: placeOf(s.Type), redelivery: s.Redelivery,
	}
	// The timestamp is an item in the header of the signature, as with Stripe.
	if strings.HasSuffix(s.Timestamp, "=") {
		f.stamp, f.stampItem = place{}, s.Timestamp
	}
	signed := s.Signed
	if signed == "" {
		signed = "{body}"
	}
	seen := map[partKind]int{}
	for signed != "" {
		text, rest, found := strings.Cut(signed, "{")
		if text != "" {
			f.parts = append(f.parts, part{text: text})
		}
		if !found {
			break
		}
		name, rest, closed := strings.Cut(rest, "}")
		kind, known := marks[name]
		if !closed || !known {
			return f, fmt.Errorf("the text %q of Signed has an unknown placeholder. Try: only {body}, {timestamp} and {id}", s.Signed)
		}
		seen[kind]++
		f.parts, signed = append(f.parts, part{kind: kind}), rest
	}
	return f, s.check(seen, &f)
}

func (s Scheme) check(seen map[partKind]int, f *form) error {
	switch {
	case s.Source == "":
		return errors.New("the Source is empty. Try: the name of the sender, such as \"linear\"")
	case s.Header == "":
		return errors.New("the Header is empty. Try: the name of the header with the signature")
	case s.Encoding > Base64:
		return fmt.Errorf("the encoding %d does not exist. Try: Hex or Base64", s.Encoding)
	case strings.ContainsAny(s.Prefix, f.separators) || strings.ContainsAny(f.stampItem, f.separators):
		return errors.New("the Prefix or the Timestamp contains a comma, a semicolon or a blank, but these characters separate signatures. Try: remove the character")
	case seen[partBody] != 1:
		return fmt.Errorf("the text %q of Signed must contain {body} exactly once. Try: \"{body}\", or \"{timestamp}.{body}\"", s.Signed)
	case (seen[partStamp] > 0) != (s.Timestamp != ""):
		return fmt.Errorf("the Timestamp is %q and Signed is %q, but either both or none of them must have a timestamp, because an unsigned timestamp proves nothing. Try: add {timestamp} to Signed, or leave Timestamp out", s.Timestamp, s.Signed)
	case f.stamp.path != "" || seen[partID] > 0 && f.id.header == "":
		return errors.New("the Timestamp is a path in the body, or Signed has {id} and the ID is not a header. Try: the name of a header")
	}
	return nil
}
