package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// recording makes a stored record with the code of today.
type recording struct {
	about   string
	asked   asked
	request string                      // what is sealed
	value   func() (any, error)         // of Do
	answer  func() (once.Answer, error) // of Exec, in place of value
	swap    *store.Record               // put there by leased work, in place of both
	lapsed  bool                        // the lease of swap
	then    func(c *columns)            // what another version would have done
}

func value(v any) func() (any, error)             { return func() (any, error) { return v, nil } }
func declined(f once.Failure) func() (any, error) { return func() (any, error) { return nil, &f } }
func response(r store.Result) func() (once.Answer, error) {
	return func() (once.Answer, error) { return once.Answer{Result: r}, nil }
}

var parts = [][]byte{[]byte("POST"), []byte("/refunds"), nil, []byte(`{"amount":1000}`)}

// The number in front is that of the release which has made the record first.
var recordings = map[string]recording{
	"0-value": {
		about: "a value of Do", value: value(map[string]any{"id": "re_1", "amount": 1000}),
		asked: asked{Scope: "acme refunds", Key: "k1", Fingerprint: parts},
	},
	"0-value-null":   {about: "no value at all", value: value(nil), asked: asked{Scope: "s", Key: "k"}},
	"0-value-string": {about: "text of many kinds", value: value("ünï \u2028 <&> \x00 😀"), asked: asked{Scope: "s", Key: "k"}},
	"0-value-number": {about: "a number that a float64 cannot hold", value: value(json.Number("9007199254740993")), asked: asked{Scope: "s", Key: "k"}},
	"0-key-unicode":  {about: "scope and key outside of ASCII", value: value(1), asked: asked{Scope: "Ärzte GmbH POST /zahlungen", Key: "é e\u0301 😀 'quoted\" \\"}},
	"0-key-derived":  {about: "a key of the business intent", value: value(1), asked: asked{Scope: "s", DeriveKey: []string{"refund", "a:b", "50%", "~"}}},
	"0-key-shortened": {about: "a derived key that was too long", value: value(1), asked: asked{
		Scope: "s", DeriveKey: []string{"refund", strings.Repeat("é", 200)},
	}},
	"0-key-hashed": {about: "HashKeys", value: value(1), asked: asked{Scope: "s", Key: "card 4111", HashKeys: true}},
	"0-request-sealed": {
		about: "a captured request", value: value(1), request: "amount=1000",
		asked: asked{Scope: "s", Key: "k", SealKey: []byte("0123456789abcdef0123456789abcdef")},
	},
	"0-request-sealed-hashed": {
		about: "a captured request under a hashed key", value: value(1), request: "\x00\xff",
		asked: asked{Scope: "s", Key: "k", HashKeys: true, SealKey: []byte("0123456789abcdef")},
	},
	"0-failure": {
		about: "a final failure", asked: asked{Scope: "s", Key: "k", Fingerprint: parts},
		value: declined(once.Failure{Code: "card_declined", Message: "insufficient funds", Detail: json.RawMessage(`{"balance":9007199254740993}`)}),
	},
	"0-failure-bare": {about: "a final failure with nothing but a code", asked: asked{Scope: "s", Key: "k"}, value: declined(once.Failure{Code: "x"})},
	"0-failure-kept": {about: "a final failure whose writes stand", asked: asked{Scope: "s", Key: "k"}, value: declined(once.Failure{Code: "x", CommitWrites: true})},
	"0-response": {
		about: "an HTTP response", asked: asked{Scope: "acme POST /refunds", Key: "k", Fingerprint: parts},
		answer: response(store.Result{
			Status: 201, Body: []byte(`{"id":"re_1"}`),
			Header: []store.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: "/refunds/re_1"}, {Name: "Link", Value: "<a>"}, {Name: "Link", Value: "<b>"}},
		}),
	},
	"0-response-binary": {
		about: "bytes that are neither text nor JSON", asked: asked{Scope: "s", Key: "k"},
		answer: response(store.Result{Status: 200, Body: []byte("\x00\x01\xfe\xff\r\n"), Header: []store.Field{{Name: "X", Value: "a: b\xff"}, {Name: "Y", Value: ""}}}),
	},
	"0-response-empty": {about: "no body", asked: asked{Scope: "s", Key: "k"}, answer: response(store.Result{Status: 204})},
	"0-response-rolled-back": {
		about: "an answer that was stored after a rollback", asked: asked{Scope: "s", Key: "k"},
		answer: func() (once.Answer, error) {
			return once.Answer{Result: store.Result{Status: 422, Body: []byte(`{"error":"x"}`)}, Rollback: true}, nil
		},
	},
	"0-failure-marked": {
		about: "a final failure with the mark that its writes were undone", asked: asked{Scope: "s", Key: "k"},
		value: declined(once.Failure{Code: "card_declined"}),
	},
	"0-response-marked": {
		about: "an answer with the mark that its writes were undone", asked: asked{Scope: "s", Key: "k"},
		answer: func() (once.Answer, error) {
			r := store.Result{Status: 422, Header: []store.Field{{Name: "Content-Type", Value: "a/b"}}, Body: []byte(`{"error":"x"}`)}
			return once.Answer{Result: r, Rollback: true}, nil
		},
	},
	"0-response-omitted": {
		about: "too large to be kept", asked: asked{Scope: "s", Key: "k"},
		answer: response(store.Result{Kind: store.ResultOmitted, Status: 200}),
	},
	"0-leased-done": {
		about: "a finished operation of several transactions", asked: asked{Scope: "s", Key: "k"},
		swap: &store.Record{State: store.StateDone, Fence: 4, RecoveryPoint: "charged", Data: []byte("ch_1"), Result: store.Result{Body: []byte(`"v"`)}},
	},
	"0-leased-running": {about: "an owner works on it", asked: asked{Scope: "s", Key: "k"}, swap: &store.Record{State: store.StateRunning, Fence: 2, RecoveryPoint: "p"}},
	"0-leased-lapsed":  {about: "its holder is gone", asked: asked{Scope: "s", Key: "k"}, swap: &store.Record{State: store.StateRunning, Fence: 2}, lapsed: true},
	"0-leased-lapsed-calling": {
		about: "its holder is gone, in the middle of an external call", asked: asked{Scope: "s", Key: "k"},
		swap: &store.Record{State: store.StateRunning, Fence: 2, CallStarted: true}, lapsed: true,
	},
	"0-leased-unknown": {about: "the outcome is unknown", asked: asked{Scope: "s", Key: "k"}, swap: &store.Record{State: store.StateUnknown, Fence: 2, CallStarted: true}},
	"0-mismatch": {
		about: "the key of another request", asked: asked{Scope: "s", Key: "k", Fingerprint: parts}, value: value(1),
		then: func(c *columns) { f := once.FingerprintOf([]byte("another")); c.Fingerprint = f[:] },
	},
	"0-fingerprint-of-another-version": {
		about: "a fingerprint that cannot be compared does not refuse", asked: asked{Scope: "s", Key: "k", Fingerprint: parts}, value: value(1),
		then: func(c *columns) { c.Fingerprint = append([]byte{200}, make([]byte, 32)...) },
	},
	"0-kind-of-another-version": {
		about: "a result that only a newer version can read", asked: asked{Scope: "s", Key: "k"}, value: value(1),
		then: func(c *columns) { c.Kind = 200 },
	},
}

// record runs the recording and returns what lies in the store then.
func (r recording) record(t *testing.T) storedRecord {
	t.Helper()
	s := memstore.New()
	cfg := once.Config{HashKeys: r.asked.HashKeys}
	if r.asked.SealKey != nil {
		sealer, err := once.NewEncrypter(r.asked.SealKey)
		must(t, err)
		cfg.Encrypter = sealer
	}
	op := r.asked.operation()
	op.Request = []byte(r.request)
	id := store.ID{Scope: op.Scope, Key: op.Key}
	if cfg.HashKeys {
		id.Key = keyname.Hashed(op.Key)
	}
	e := once.New(s, cfg)
	switch {
	case r.swap != nil:
		r.swap.Nonce = []byte("0123456789abcdef")
		_, err := s.Swap(t.Context(), store.Change{ID: id, Next: *r.swap, Lease: time.Hour, Retain: time.Hour})
		must(t, err)
	case r.answer != nil:
		_, _, err := e.Exec(t.Context(), op, func(context.Context, tx) (once.Answer, error) { return r.answer() })
		must(t, err)
	default:
		_, err := once.Do(t.Context(), e, op, func(context.Context, tx) (any, error) { return r.value() })
		if f := (*once.Failure)(nil); !errors.As(err, &f) {
			must(t, err)
		}
	}
	rec, err := s.Read(t.Context(), id)
	must(t, err)
	c := columns{
		Scope: id.Scope, Key: id.Key, State: int(rec.State), Fence: rec.Fence, Claim: rec.Nonce, Fingerprint: rec.Fingerprint,
		Status: rec.Result.Status, Kind: int(rec.Result.Kind), Head: head.Encode(&rec.Result), Body: rec.Result.Body,
		Request: rec.Request, Point: rec.RecoveryPoint, Calling: rec.CallStarted, Data: rec.Data, Lapsed: r.lapsed,
	}
	if r.then != nil {
		r.then(&c)
	}
	return storedRecord{About: r.about, Asked: r.asked, Stored: c}
}
