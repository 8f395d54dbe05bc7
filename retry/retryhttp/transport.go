package retryhttp

import (
	"net/http"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
)

// Transport is an [http.RoundTripper] that retries. The zero value is ready to use. A Transport must not be changed while it is in use; any number of
// goroutines may use it at the same time.
type Transport struct {
	// Base sends each attempt. Default: [http.DefaultTransport].
	Base http.RoundTripper

	// Policy says how often and for how long requests are tried. Policy.Total is measured from the beginning of the call to the header of the answer,
	// and Policy.Timeout from the beginning of the attempt to that header. Only the context limits the time for the body of the answer. The default
	// budget is [retry.BudgetFor] of the host and port in the URL.
	Policy retry.Policy

	// Keys adds an idempotency key to requests that have no key and whose method is neither safe nor idempotent. Do not set Keys for servers that
	// ignore idempotency keys: on such a server a repeated request takes effect twice. Each call gets a new key, so such requests are not stored in
	// the Journal. Default: false.
	Keys bool

	// AtMostOnce says that the servers do not recognise duplicates by the idempotency key. A request is then sent again only if its method is safe,
	// or if the server has provably not executed it, whether the request has a key or not. Such a request is never hedged, and is not stored in the
	// Journal. For a request with the context of a leased call that must not be repeated, every Transport applies this rule: see package lease.
	// Default: false.
	AtMostOnce bool

	// Dialect describes the servers: the form of their keys, and how long they keep keys. Default: keys are sent without quotation marks, and not
	// later than 24 hours after the first attempt.
	Dialect Dialect

	// Hedge is the time after which a repeatable request without an answer is sent a second time, in parallel. The first answer is used, and the
	// other request is cancelled. Choose a time that only one in twenty requests exceeds. Default: 0, no request is sent in parallel.
	Hedge time.Duration

	// Buffer is a Content-Length in bytes. An answer of at most this length to a request with an idempotency key is read completely before the caller
	// gets the answer, so that the request can be repeated if the answer breaks off. The caller gets longer answers, and answers of unknown length,
	// when their header has arrived. Default: 64 KiB. If Buffer is negative, no answer is read first.
	Buffer int64

	// Journal stores requests with an idempotency key before their first attempt and until their outcome is known, so that the requests can be
	// resumed after the process was killed: see package journal. The whole body of a request is read before its first attempt. Only requests with a
	// key of the caller are stored. The caller does not know a key that Keys has added, so a new request of the caller and the resumed request would
	// have two keys, and the operation would happen twice. Default: nil, no journal.
	Journal journal.Journal

	// BeforeAttempt is called before each attempt is sent, and may change the header of the attempt, for example to renew a token. [ResendCount] of
	// the request's context returns how many attempts came before. Changes of the idempotency key are undone. If BeforeAttempt returns an error, the
	// call ends. With Hedge, two calls of BeforeAttempt may run at the same time. Default: nil.
	BeforeAttempt func(*http.Request) error

	// Breaker returns the circuit breaker of a host. The transport passes a normalized name: different spellings of one host give the same string, as in [retry.BudgetFor]. Default: nil,
	// Policy.Breaker is used for all hosts.
	Breaker func(host string) retry.Breaker

	// Tracer starts a span for each call and for each of its attempts. *onceotel.Telemetry implements it. Default: nil, no spans.
	Tracer Tracer
}

// Dialect describes how servers treat keys and headers. A server that uses package oncehttp has the same facts in its oncehttp.Preset.
type Dialect struct {
	// Quoted sends keys of WithKey and Keys in quotation marks, "k" and not k, as the Internet draft of the header has it. Set Quoted for servers
	// that accept only this form, such as those with oncehttp.Preset.QuotedKeys. Default: false, keys are sent without quotation marks, as most APIs
	// want them. Do not change Quoted while keys are in use: package oncehttp treats both forms as the same key, but other servers treat them as two
	// keys. A key that the caller has put into the header of a request is never changed.
	Quoted bool

	// Announce says that the servers understand the headers Once-Attempt and X-Request-Timeout, as package oncehttp does. Both headers are then sent
	// with every request. By default these headers are sent only to hosts that have answered with Idempotency-Status, so that other hosts do not
	// learn how often and how long this client tries.
	Announce bool

	// Retain is how long the server keeps a key. A key that is older is not sent again. If the server's header Idempotency-Retention has a shorter
	// time, the shorter time applies. A request that is already in the Journal keeps its stored expiry, unless Retain is set and leads to an earlier
	// expiry.
	//
	// Default: 24 hours, the shortest time that servers usually have. (Servers that use this library keep keys for 72 hours by default.) A client
	// that has never got an answer does not know how long its server keeps keys, and must not send a key that the server has deleted. If the server
	// keeps keys for longer, set Retain: see [Once].
	Retain time.Duration
}

// Once returns the dialect of servers that use package oncehttp with its defaults: Announce, and a Retain of 72 hours.
func Once() Dialect { return Dialect{Announce: true, Retain: 72 * time.Hour} }

// RoundTrip implements [http.RoundTripper]. It returns the last answer, even if this answer is a failure; [GivenUp] returns why no attempt followed
// it. If no answer exists, the error is the last failure itself or a *[retry.Error] that wraps it.
func (t *Transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if t.Tracer == nil {
		return t.roundTrip(req)
	}
	ctx, end := t.Tracer.CallSpan(req)
	defer func() { end(resp, err) }()
	return t.roundTrip(req.WithContext(ctx))
}

func (t *Transport) roundTrip(req *http.Request) (*http.Response, error) {
	c, err := t.begin(req)
	if err != nil {
		// A RoundTripper must close the body, also if it returns an error.
		closeBody(req)
		return nil, err
	}
	defer c.body.close()
	if c.intent != nil {
		return c.run()
	}
	return c.answer()
}

// answer makes attempts until one of them is the last one.
func (c *call) answer() (*http.Response, error) {
	for {
		a := c.attempt()
		if a.good {
			c.policy.Budget.Answered(a.number)
			c.tell(retry.Event{Type: retry.EventDone, Class: a.class, Err: a.refusal()})
			return c.hand(a, nil)
		}
		resent := c.stale
		wait, stop := c.decide(a)
		kind := retry.EventFailed
		if c.stale > resent {
			kind = retry.EventResent
		}
		c.tell(retry.Event{Type: kind, Class: a.class, Err: a.failure(), Wait: wait, Stop: stop})
		if stop != "" {
			return c.end(a, stop)
		}
		c.last = a.failure()
		// The answer is discarded before the pause, so that other requests can use its connection meanwhile.
		a.discard()
		if !sleep.For(c.req.Context(), wait) {
			return nil, c.ended(retry.ReasonCancelled)
		}
		switch { // the pause may have been longer than planned, because the process or its machine was stopped
		case c.impatient():
			return nil, c.ended(retry.ReasonTooLate)
		case c.expired():
			return nil, c.ended(retry.ReasonExpired)
		}
	}
}

// ended ends the call between two attempts.
func (c *call) ended(reason retry.Reason) error {
	why := c.gaveUp(reason, c.last)
	c.tell(retry.Event{Type: retry.EventEnded, Err: why, Stop: reason})
	return why
}

// tell sends an event to the observer and to the tracer.
func (c *call) tell(e retry.Event) {
	if c.policy.Observe == nil && c.t.Tracer == nil {
		return
	}
	url := *c.req.URL
	// User and query may contain secrets.
	url.User, url.RawQuery, url.Fragment = nil, "", ""
	e.Attempt, e.Method, e.URL = c.attempts(), c.method(), url.String()
	if c.t.Tracer != nil {
		c.t.Tracer.CallEvent(c.req.Context(), e)
	}
	if c.policy.Observe != nil {
		c.policy.Observe(c.req.Context(), e)
	}
}

// CloseIdleConnections closes the idle connections of Base. [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}
