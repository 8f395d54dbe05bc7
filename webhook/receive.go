package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/receiver"
	"github.com/oncelib/once/message"
)

// Receive returns a handler that verifies each request with v and applies its event once. The writes of fn commit
// together with the note that the event was applied, and the HTTP handler answers after this commit. If a request
// cannot be verified, no part of the request is decoded, applied or kept, and the answer does not say why the
// request cannot be verified.
//
// Do not wrap the returned handler in a middleware that parses or decompresses the body, because the handler must
// read the raw body. The package documentation has a table of the answers.
//
// Receive panics if the inbox keeps the ID of an event for a shorter time than the time in which the sender may
// send the event again, or if v does not say where a request contains the ID of the event.
func Receive[TX any](in *inbox.Inbox[TX], v *Verifier, fn inbox.Handler[TX]) http.Handler {
	cfg := in.Config()
	if err := v.check(cfg.Retain, cfg.RetainOf); err != nil {
		panic("webhook: Receive: " + err.Error())
	}
	return receiver.Of(in, fn, v.receiver())
}

// check returns an error if the inbox forgets an ID before the sender stops repeating the event.
func (v *Verifier) check(retain time.Duration, of map[string]time.Duration) error {
	if d, ok := of[v.Source]; ok {
		retain = d
	}
	switch {
	case v.form.id.isZero():
		return errors.New("the Scheme has no ID, so the inbox could not recognize a second delivery of the same event. Try: Scheme.ID, or Verifier.Verify in your own handler")
	case retain < v.form.redelivery:
		return fmt.Errorf("the inbox remembers an ID for %v, but %s sends an event again for %v, so an event could be applied twice. Try: a longer inbox.Config.Retain, or RetainOf[%q]",
			retain, v.Source, v.form.redelivery, v.Source)
	}
	return nil
}

func (v *Verifier) receiver() receiver.Config {
	return receiver.Config{
		Verify: func(r *http.Request, body []byte) error {
			err := v.authenticate(r.Header, body)
			if err != nil && v.Refused != nil {
				v.Refused(r, err)
			}
			return err
		},
		Answer: v.form.answer,
		Decode: v.decode,
	}
}

// decode returns the message of a verified request.
func (v *Verifier) decode(r *http.Request, body []byte) ([]message.Message, error) {
	f := &v.form
	m := message.Message{
		ID: f.id.read(r.Header, body), Source: v.Source, Topic: v.Source, Type: f.typ.read(r.Header, body), Payload: body, Headers: headersOf(r.Header),
	}
	if m.ID == "" {
		return nil, fmt.Errorf("the request has no event ID: the header or the field of the body in which %s sends the ID is missing or empty", printable.Short(v.Source))
	}
	return []message.Message{m}, nil
}

// headersOf returns the headers that the inbox stores with a message. It leaves out signatures, secrets, and
// headers that concern only the delivery.
func headersOf(h http.Header) map[string]string {
	kept := map[string]string{}
	for name, value := range receiver.Headers(h) {
		name = strings.ToLower(name)
		switch {
		case message.IsOfDelivery(name), !printable.Is(name), !printable.Is(value):
		case kept[name] != "": // HTTP joins several lines with the same name by a comma
			kept[name] += ", " + value
		default:
			kept[name] = value
		}
	}
	return kept
}
