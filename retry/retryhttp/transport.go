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

	// Policy says how often and for how long. Total counts from the beginning of the
	// request to the header of the answer, and so does Timeout for an attempt: the body
	// of an answer may take as long as the context allows. The default budget is that of
	// the host and port in the URL.
	Policy retry.Policy

	// Keys says that requests which are neither safe nor idempotent by their method, and
	// have no idempotency key, are to be given one. Do not set it for servers that do
	// not know idempotency keys: there a repeated request takes effect twice. A key that
	// was made lasts for one call: the next call gets another one. So what has one
	// is not in the Journal.
	Keys bool

	// AtMostOnce says that servers do not dedupe by the idempotency key. A request is then sent again
	// only if its method is safe, or if the server has provably not executed it, whatever key it
	// has. It is not raced with (Hedge), and is not in the Journal. Requests with the context of a
	// leased call that may not be made again are sent so by each Transport: see package lease.
	AtMostOnce bool

	// Dialect is what the servers understand, and how long they remember keys. Default: keys as they are, for 24 hours.
	Dialect Dialect

	// Hedge is after how long without an answer a request that may be repeated is sent a
	// second time, in parallel. The first answer counts, the other request is cancelled.
	// Choose what only one in twenty requests takes. Default: never.
	Hedge time.Duration

	// Buffer is up to which Content-Length an answer to a request with an idempotency
	// key is read before it is handed over, so that one that is cut half way is asked for
	// again. Longer ones, and those of unknown length, are handed over at once, and what
	// happens to them then is the caller's to see. Default 64 KiB; negative: none.
	Buffer int64

	// Journal keeps what requests with an idempotency key ask for from before the first
	// attempt until the outcome is known, so that a process that was killed can resume
	// them: see package journal. The whole body is read first. The key must be the
	// caller's: what was given one by Keys is sent without being written down, because
	// its caller, who does not know the key and asks again, would make it happen twice
	// once the journal is resumed. Default: none.
	Journal journal.Journal

	// BeforeAttempt may change the header of each attempt before it is sent, to renew a token,
	// say; [ResendCount] of its context tells which one it is. The idempotency key stays as it
	// was. An error ends the call. With Hedge it may run twice at the same time. Default: none.
	BeforeAttempt func(*http.Request) error

	// Breaker returns the breaker of a host, whose name is that of its budget: see
	// [retry.BudgetFor]. Default: Policy.Breaker for all.
	Breaker func(host string) retry.Breaker

	// Tracer makes a span of each call, and of each attempt in it. An onceotel.Telemetry is one. Default: none.
	Tracer Tracer
}

// Dialect is what a client and its servers have in common, beside the header of the key: on the server, it is a preset of package oncehttp.
type Dialect struct {
	// Quoted says that keys of WithKey and Keys are sent as the Internet draft has them,
	// "k" and not k, for servers that accept nothing else, such as oncehttp.Preset.QuotedKeys.
	// By default they are sent as they are, which is what most APIs want and what package
	// oncehttp takes for the same key; to others it is another one. So do not change it
	// while keys are in use. A key in the header of a request is never changed.
	Quoted bool

	// Announce says that the servers understand Once-Attempt and X-Request-Timeout, as those
	// of package oncehttp do. Both are sent then from the first request on; by default only
	// to hosts that have answered with Idempotency-Status. Others are not to learn how often
	// and for how long we ask.
	Announce bool

	// Retain is for how long the server remembers a key. An older one is not sent
	// again. A shorter time that the server names in Idempotency-Retention is believed.
	// An intent that is in the Journal already keeps the time that it was written down
	// with, unless this is set and shorter.
	//
	// Default 24 hours, which is less than the 72 of package once, and the least that is
	// usual: a client that is told nothing, because it was never answered, must not ask
	// for longer than its server remembers. Where the server keeps them for longer, say
	// so: see [Once].
	Retain time.Duration
}

// Once returns the dialect of servers that have the defaults of package oncehttp.
func Once() Dialect { return Dialect{Announce: true, Retain: 72 * time.Hour} }

// RoundTrip implements [http.RoundTripper]. The last answer is returned even if it is a
// failure: [GivenUp] tells why it is the last. If there is none the error is the last
// failure itself or a *[retry.Error] around it.
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
		switch { // the pause may have been longer: the process was stopped, or its machine
		case c.impatient():
			return nil, c.ended(retry.ReasonTooLate)
		case c.expired():
			return nil, c.ended(retry.ReasonExpired)
		}
	}
}

// ended is the end of the call between two attempts.
func (c *call) ended(reason retry.Reason) error {
	why := c.gaveUp(reason, c.last)
	c.tell(retry.Event{Type: retry.EventEnded, Err: why, Stop: reason})
	return why
}

// tell tells the observer.
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

// CloseIdleConnections does so in Base, for [http.Client.CloseIdleConnections].
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
