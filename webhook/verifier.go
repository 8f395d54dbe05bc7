package webhook

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/message"
)

// [Verifier.Verify] returns ErrSignature or ErrStale if it refuses a request. ErrSignature and ErrStale contain
// no details, and never contain the right signature.
var (
	// ErrSignature says that the request was not signed with one of the secrets.
	ErrSignature = errors.New("webhook: the signature is missing or wrong. " +
		"Try: check the secret of this endpoint, and verify the body before any middleware parses or decompresses it")

	// ErrStale says that the signature is right, but the signed time is too old or in the future: the request
	// is a copy of an old request, or the clock of the sender or of this host is wrong.
	ErrStale = errors.New("webhook: the timestamp of the request is too old, or in the future. Try: check the clock of this host, or set a larger Verifier.Tolerance")
)

const (
	maxSignatures    = 20 // in one request
	defaultTolerance = 5 * time.Minute
)

// Verifier verifies who has signed a request. [Standard], [Stripe], [GitHub], [Shopify], [Slack] and
// [Scheme.Verifier] return a Verifier. The methods of a Verifier can be called concurrently. The fields of a
// Verifier must be set before the first use.
type Verifier struct {
	// Source becomes the source and the topic of the messages that Verify returns. An inbox distinguishes IDs
	// by source, so two senders need different sources.
	Source string

	// Tolerance is the largest allowed difference between the timestamp of a request and the current time, in
	// both directions. Default, also for a negative value: 5 minutes.
	Tolerance time.Duration

	// Now returns the time. Default: [time.Now].
	Now func() time.Time

	// Refused is called for each request that [Receive] refuses with [ErrSignature] or [ErrStale], for a log or a
	// counter. The answer to the sender does not say whether the error was ErrSignature or ErrStale. Default: no
	// function.
	Refused func(r *http.Request, err error)

	form form
}

// Verify verifies the signature of body. The parameter body must contain the bytes as they were received, not a
// parsed and rewritten copy. Verify returns the message of the request: ID, source, topic, type and payload. The
// fields ID and Type of the message are empty if the request has no ID or no type. If Verify refuses the
// request, the error is [ErrSignature] or [ErrStale], and the message is empty. A request with more than 20
// signatures is refused. Names in header must be in canonical form, as in [http.Request].
//
// When the sender sends an event again, the message has the same ID. The inbox of [Receive] uses the ID to detect
// duplicates. If you do not use an inbox, store the ID of the message in the transaction in which you apply the
// event, so that your code can detect duplicates.
func (v *Verifier) Verify(header http.Header, body []byte) (message.Message, error) {
	if err := v.authenticate(header, body); err != nil {
		return message.Message{}, err
	}
	return message.Message{
		ID: v.form.id.read(header, body), Source: v.Source, Topic: v.Source, Type: v.form.typ.read(header, body), Payload: body,
	}, nil
}

func (v *Verifier) authenticate(header http.Header, body []byte) error {
	f := &v.form
	var s signed
	if !s.read(f, header) {
		return ErrSignature
	}
	s.body = body
	valid := false
	for _, k := range f.keys { // all of them, so that the time does not show which one matched
		matches := k.matches(f, &s)
		valid = valid || matches
	}
	for i := range f.publicKeys {
		matches := f.publicKeys[i].matches(f, &s)
		valid = valid || matches
	}
	switch {
	case !valid:
		return ErrSignature
	// The time is checked after the signature, because a time that is not signed proves nothing.
	case s.stamp != "" && !v.isFresh(s.stamp):
		return ErrStale
	}
	return nil
}

// isFresh reports whether stamp, which was signed, is a time near now.
func (v *Verifier) isFresh(stamp string) bool {
	at, ok := timeOf(stamp)
	if !ok {
		return false
	}
	tolerance, now := v.Tolerance, time.Now
	if tolerance <= 0 {
		tolerance = defaultTolerance
	}
	if v.Now != nil {
		now = v.Now
	}
	return now().Sub(at).Abs() <= tolerance
}

// timeOf reads seconds since 1970, or RFC 3339. No text is both.
func timeOf(stamp string) (time.Time, bool) {
	const digits = 11 // enough until the year 5138; a time in milliseconds has more
	var seconds int64
	for i := range len(stamp) {
		c := stamp[i]
		if c < '0' || c > '9' || i == digits {
			at, err := time.Parse(time.RFC3339, stamp)
			return at, err == nil
		}
		seconds = seconds*10 + int64(c-'0')
	}
	return time.Unix(seconds, 0), stamp != ""
}

// signed holds the signatures of a request, and the parts of the signed text.
type signed struct {
	id, stamp string
	body      []byte
	list      [maxSignatures]string
	n         int
	public    [maxSignatures]string // signatures with a public key
	nPublic   int
}

// read reads the headers. It returns false if a signature cannot be right.
func (s *signed) read(f *form, header http.Header) bool {
	for _, line := range header[f.header] {
		for line != "" {
			item, rest := line, ""
			if i := strings.IndexAny(line, f.separators); i >= 0 {
				item, rest = line[:i], line[i+1:]
			}
			line = rest
			if item != "" && !s.add(f, item) {
				return false
			}
		}
	}
	for _, p := range f.parts {
		switch {
		case p.kind == partID:
			// With a dot in it, a part of the body could be taken for the timestamp.
			if s.id = f.id.read(header, nil); s.id == "" || strings.Contains(s.id, ".") {
				return false
			}
		case p.kind != partStamp:
		case f.stampItem == "":
			s.stamp = f.stamp.read(header, nil)
			fallthrough
		default:
			if s.stamp == "" {
				return false
			}
		}
	}
	// Without any signature the body need not be hashed.
	return s.n > 0 || s.nPublic > 0
}

// add adds an item of the header. It returns false if there are too many, or two timestamps.
func (s *signed) add(f *form, item string) bool {
	if f.stampItem != "" {
		if stamp, ok := strings.CutPrefix(item, f.stampItem); ok {
			twice := s.stamp != ""
			s.stamp = stamp
			// With two timestamps it is not known which one was signed.
			return !twice
		}
	}
	if text, ok := strings.CutPrefix(item, publicPrefix); ok && len(f.publicKeys) > 0 {
		if s.nPublic == maxSignatures {
			return false
		}
		s.public[s.nPublic] = text
		s.nPublic++
		return true
	}
	if text, ok := strings.CutPrefix(item, f.prefix); ok && text != "" {
		if s.n == maxSignatures {
			return false
		}
		s.list[s.n] = text
		s.n++
	}
	return true
}

// appendHead appends the signed text before the body, and appendTail the text after it.
func (s *signed) appendHead(b []byte, f *form) []byte { return s.appendParts(b, f.parts, false) }
func (s *signed) appendTail(b []byte, f *form) []byte { return s.appendParts(b, f.parts, true) }

func (s *signed) appendParts(b []byte, parts []part, tail bool) []byte {
	behind := false
	for _, p := range parts {
		if p.kind == partBody {
			behind = true
			continue
		}
		if behind != tail {
			continue
		}
		switch p.kind {
		case partID:
			b = append(b, s.id...)
		case partStamp:
			b = append(b, s.stamp...)
		default:
			b = append(b, p.text...)
		}
	}
	return b
}
