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

	// Policy says how often and for how long requests are tried. Policy.Total limits the time from the beginning of the call to the header of the
	// answer. Policy.Timeout limits the time from the beginning of an attempt to the header of its answer. The time in which the body of the answer
	// is read is limited only by the context. The default budget is [retry.BudgetFor] of the host and port in the URL.
	Policy retry.Policy

	// Keys adds an idempotency key to requests that have no key and whose method is neither safe nor idempotent. Do not set Keys for servers that
	// ignore idempotency keys: if such a server gets a request twice, the request takes effect twice. Each call gets a new key, so requests with
	// a key of Keys are not stored in the Journal. Default: false.
	Keys bool

	// AtMostOnce says that the servers do not recognise duplicates by the idempotency key. With AtMostOnce, a request is sent again only if its
	// method is safe, or if the server has provably not executed the request. With AtMostOnce, an idempotency key does not make a request
	// repeatable. With AtMostOnce, a request whose method is not safe is never sent in parallel (see Hedge), and is not stored in the Journal.
	// Every Transport treats a request as with AtMostOnce if the context of the request comes from a leased call that must not be repeated: see
	// package lease. Default: false.
	AtMostOnce bool

	// Dialect describes the servers: the form of their keys, and how long the servers keep keys. Default: keys are sent without quotation marks,
	// at most until 24 hours after the first attempt.
	Dialect Dialect

	// Hedge is the time after which a repeatable request without an answer is sent a second time, in parallel. The first answer is used, and the
	// request without an answer is cancelled. Choose a time in which 95 % of the requests get their answers. Default: 0, no request is sent in
	// parallel.
	Hedge time.Duration

	// Buffer is a Content-Length in bytes. If the answer to a request with an idempotency key has at most the length Buffer, the Transport
	// reads the whole answer before the caller gets the answer. So the Transport can repeat the request if the answer breaks off. If an answer
	// is longer or its length is unknown, the caller gets the answer when its header has arrived. Default: 64 KiB. If Buffer is negative, the
	// caller gets each answer when its header has arrived.
	Buffer int64

	// Journal stores requests with an idempotency key before their first attempt and until their outcome is known, so that the requests can be
	// resumed after the process was killed: see package journal. The whole body of a request is read before its first attempt. Only requests whose
	// key the caller has set are stored. The reason is that the caller does not know a key that Keys has added. If the journal sent a request with
	// a key of Keys again, and the caller also sent a new request for the same operation, the two requests would have different keys, and the
	// operation would happen twice. If the journal fails to store a request within Policy.Total, the request is not sent. If the journal fails to
	// store the outcome of a request within 5 seconds, the intent (the stored request) stays open. Default: nil, no journal.
	Journal journal.Journal

	// BeforeAttempt is called before each attempt is sent, and may change the header of the attempt, for example to renew a token. Call
	// [ResendCount] with the context of the request to get the number of earlier attempts. If BeforeAttempt changes the idempotency
	// key, the Transport restores the key. If BeforeAttempt returns an error, the call ends. With Hedge, two calls of BeforeAttempt may
	// run at the same time. Default: nil.
	BeforeAttempt func(*http.Request) error

	// Breaker returns the circuit breaker of a host. The Transport passes a normalized host name to Breaker: for different spellings of one host,
	// Breaker gets the same string, as [retry.BudgetFor] does. Default: nil, Policy.Breaker is used for all hosts.
	Breaker func(host string) retry.Breaker

	// Tracer starts a span for each call and for each of its attempts. *onceotel.Telemetry implements Tracer. Default: nil, no spans.
	Tracer Tracer
}

// Dialect describes how servers treat keys and headers. In a server that uses package oncehttp, the oncehttp.Preset describes the
// same properties.
type Dialect struct {
	// Quoted sends the keys of WithKey and Keys in quotation marks ("k" instead of k), as the Internet draft of the header requires. Set Quoted for
	// servers that accept only keys in quotation marks, such as servers that set oncehttp.Preset.QuotedKeys. Default: false, keys are sent without
	// quotation marks, because most APIs want keys without quotation marks. Do not change Quoted while keys are in use: package oncehttp treats
	// both forms as the same key, but other servers treat them as two keys. A key that the caller has put into the header of a request is never
	// changed.
	Quoted bool

	// Announce says that the servers understand the headers Once-Attempt and X-Request-Timeout, as package oncehttp does. With Announce,
	// Once-Attempt and X-Request-Timeout are sent with every request. Default: false, the headers Once-Attempt and X-Request-Timeout are sent only
	// to hosts that have answered with Idempotency-Status. So hosts without package oncehttp do not learn how often and for how long this client
	// tries.
	Announce bool

	// Retain is how long the server keeps a key. A key that is older than Retain is not sent again. If the server has sent a shorter time in
	// the header Idempotency-Retention, the shorter time applies. For a request that is already in the Journal, the expiry in the Journal
	// applies, unless Retain is set and gives an earlier expiry.
	//
	// Default: 24 hours, the shortest time for which servers usually keep keys. Servers that use this library keep keys for 72 hours by default.
	// The default is shorter than 72 hours because a client that has never got an answer does not know how long its server keeps keys, and must
	// not send a key that the server has deleted. If the server keeps keys for longer, set Retain: see [Once].
	Retain time.Duration
}

// Once returns the dialect of servers that use package oncehttp with its defaults. In the dialect of Once, Announce is true, and Retain is 72 hours.
func Once() Dialect { return Dialect{Announce: true, Retain: 72 * time.Hour} }

// RoundTrip implements [http.RoundTripper]. RoundTrip returns the last answer, even if this answer is a failure. If the last answer is a failure,
// [GivenUp] returns why no further attempt was made. If no answer exists, the error is the last failure itself or a *retry.Error that wraps the last
// failure.
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
	if c == nil {
		// A RoundTripper must close the body, also if it returns an error.
		closeBody(req)
		return nil, err
	}
	defer c.body.close()
	if err != nil {
		return nil, err
	}
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

// CloseIdleConnections closes the idle connections of Base. The method [http.Client.CloseIdleConnections] calls
// CloseIdleConnections of its transport.
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
