package retryhttp

import (
	"net/http"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
)

// Transport is an [http.RoundTripper] that retries. The zero value is ready to use. It
// must not change while it is in use; any number of requests may share it.
type Transport struct {
	// Base sends each attempt. Default: [http.DefaultTransport].
	Base http.RoundTripper

	// Policy says how often and for how long requests are tried. Total counts from the beginning of the request to the header of the answer, and so
	// does Timeout for an attempt: the body of an answer may take as long as the context allows. The default budget is the budget of the host and
	// port in the URL.
	Policy retry.Policy

	// Keys adds an idempotency key to requests which are neither safe nor idempotent by their method, and have no key. Do not set it for servers that
	// do not know idempotency keys: there a repeated request takes effect twice. An added key lasts for one call: the next call gets another one. So
	// such requests are not in the Journal.
	Keys bool

	// AtMostOnce says that servers do not dedupe by the idempotency key. A request is then sent again only if its method is safe, or if the server
	// has provably not executed it, whatever its key. It is never hedged, and is not in the Journal. Each Transport treats requests with the context
	// of a leased call that must not be repeated in this way: see package lease.
	AtMostOnce bool

	// Dialect describes the servers: their form of keys, and how long they remember keys. Default: keys as they are, for 24 hours.
	Dialect Dialect

	// Hedge is the time without an answer after which a repeatable request is sent a second time, in parallel. The first answer counts, and the other
	// request is cancelled. Choose a time that only one in twenty requests takes. Default: never.
	Hedge time.Duration

	// Buffer is the Content-Length up to which an answer to a request with an idempotency key is read before the caller gets it, so that the request
	// can be repeated if the answer is cut. The caller gets longer answers, and answers of unknown length, at once, with any later error. Default 64
	// KiB; negative means never.
	Buffer int64

	// Journal keeps requests with an idempotency key from before the first attempt until the outcome is known, so that they can be resumed after a
	// process was killed: see package journal. The whole body is read first. The key must be the caller's: a request with a key of Keys is sent
	// without the journal, because its caller, who does not know the key and asks again, would make it happen twice once the journal is resumed.
	// Default: no journal.
	Journal journal.Journal

	// BeforeAttempt may change the header of each attempt before it is sent, for example to renew a token; [ResendCount] of its context returns the
	// number of the attempt. The idempotency key stays as it was. An error ends the call. With Hedge it may run twice at the same time. Default:
	// none.
	BeforeAttempt func(*http.Request) error

	// Breaker returns the breaker of a host, in the spelling of its budget: see [retry.BudgetFor]. Default: Policy.Breaker for all hosts.
	Breaker func(host string) retry.Breaker

	// Tracer makes a span of each call, and of each attempt in it. An onceotel.Telemetry is one. Default: none.
	Tracer Tracer
}

// Dialect is the agreement between a client and its servers about keys and headers. On the server it is a preset of package oncehttp.
type Dialect struct {
	// Quoted sends keys of WithKey and Keys in the form of the Internet draft, "k" and not k, for servers that accept nothing else, such as
	// oncehttp.Preset.QuotedKeys. By default they are sent as they are, as most APIs want them; package oncehttp takes both forms for the same key,
	// and other servers for two keys. So do not change it while keys are in use. A key in the header of a request is never changed.
	Quoted bool

	// Announce says that the servers understand Once-Attempt and X-Request-Timeout, as package oncehttp does. Then both are sent from the first
	// request on; by default only to hosts that have answered with Idempotency-Status, so that other hosts do not learn how often and for how long we
	// ask.
	Announce bool

	// Retain is how long the server remembers a key. An older key is not sent again. A shorter time in the server's Idempotency-Retention is
	// respected. An intent that is already in the Journal keeps its stored time, unless Retain is set and shorter.
	//
	// Default 24 hours, which is less than the 72 of package once, and the shortest usual time: a client that has never got an answer does not know
	// the server's time, and must not ask for longer than its server remembers. If the server keeps keys for longer, set it: see [Once].
	Retain time.Duration
}

// Once returns the dialect of servers that have the defaults of package oncehttp.
func Once() Dialect { return Dialect{Announce: true, Retain: 72 * time.Hour} }

// RoundTrip implements [http.RoundTripper]. It returns the last answer even if that is a failure: [GivenUp] returns why no attempt followed. Without
// an answer the error is the last failure itself or a *[retry.Error] around it.
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
		closeBody(req)
		return nil, err
	}
	defer c.body.close()
	if c.intent != nil {
		return c.run()
	}
	return c.answer()
}

// answer makes attempts until one of them is the last.
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
		// Before the pause, so that its connection can be used meanwhile.
		a.discard()
		if !sleep.For(c.req.Context(), wait) {
			return nil, c.ended(retry.ReasonCancelled)
		}
		switch { // the pause may have been longer: the process or its machine was stopped
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

// tell sends an event to the observer.
func (c *call) tell(e retry.Event) {
	if c.policy.Observe == nil && c.t.Tracer == nil {
		return
	}
	url := *c.req.URL
	url.User, url.RawQuery, url.Fragment = nil, "", ""
	e.Attempt, e.Method, e.URL = c.attempts(), c.method(), url.String()
	if c.t.Tracer != nil {
		c.t.Tracer.CallEvent(c.req.Context(), e)
	}
	if c.policy.Observe != nil {
		c.policy.Observe(c.req.Context(), e)
	}
}

// CloseIdleConnections closes those of Base, for [http.Client.CloseIdleConnections].
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
