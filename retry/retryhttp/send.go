package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/lazy"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
)

// send makes one attempt. The parameter ctx is the context of the caller or of a race.
func (c *call) send(ctx context.Context) (a answer) {
	outcome := retry.HealthBad // the outcome if Base panics
	if c.breaker != nil {
		done, err := c.breaker.Allow()
		if err != nil {
			return answer{err: err, shut: true}
		}
		defer func() { done(outcome) }()
	}
	n := c.count()
	// The first attempt has its place in the call, so that the usual call allocates little.
	on := &c.one
	if n != c.first {
		on = new(sending)
	}
	on.Parent, on.Until = ctx, lazy.Never
	on.limit.Store(int64(lazy.Never))
	on.resends, on.call = n-1, c
	a.sending = on
	req, err := c.request(on)
	if err != nil {
		on.cancel(nil)
		a.err, a.class, outcome = err, retry.ClassFinal, retry.HealthUnknown
		return a
	}
	a.begun = time.Duration(lazy.Now())
	a.number = c.policy.Budget.Begin(a.begun)
	a.resp, err = c.roundTrip(req) //nolint:bodyclose // closed by the receiver of the answer
	switch {
	case err != nil && a.resp != nil && a.resp.Body != nil: // Base has returned both, against the rules of RoundTripper
		a.resp.Body.Close()
	case err == nil && a.resp == nil:
		err = errors.New("retryhttp: Transport.Base has returned neither a response nor an error")
	case err == nil && a.resp.Body == nil: // stubs in tests do so, and http.Client accepts it
		a.resp.Body = http.NoBody
	}
	if err != nil {
		a.stale = on.stale(err)
		a.fail(err)
		if why := c.body.failure(); why != nil {
			// The body of the caller cannot be read. The server is not the reason, and a retry would not help.
			a.err, a.class, a.stale = why, retry.ClassFinal, false
		}
	} else {
		a.resp.Request = req
		c.judge(&a)
	}
	if !on.inTime() && a.resp != nil { // the time is over, so the rest of the body cannot be read
		a.resp.Body.Close()
		a.fail(errSlow)
	}
	// This is the context of the caller: if the caller gives up, this says nothing about the server.
	outcome = a.outcome(c.req.Context())
	if c.intent != nil {
		on.code = a.code
		c.intent.note(&a)
	}
	return a
}

// request returns the request of an attempt.
func (c *call) request(on *sending) (*http.Request, error) {
	body, err := c.body.open(on)
	if err != nil {
		return nil, err
	}
	until, ours := c.due()
	if ours {
		on.limit.Store(int64(lazy.At(until)))
	}
	// A copy, because a RoundTripper must not change the request of its caller.
	r := c.req.WithContext(on)
	r.Header = c.header(on, until)
	if c.t.BeforeAttempt != nil {
		if err := c.prepare(r); err != nil {
			if body != nil {
				body.Close()
			}
			return nil, err
		}
	}
	// This comes after BeforeAttempt, which must see the real names of the headers.
	c.hide(r.Header)
	r.Body, r.GetBody = body, nil // with GetBody net/http could send the request again on its own
	return r, nil
}

// header returns the header of an attempt.
func (c *call) header(on *sending, until time.Time) http.Header {
	h := maps.Clone(c.req.Header)
	if h == nil {
		h = make(http.Header, len(on.values))
	}
	set := func(name string, i int, value string) {
		on.values[i] = value
		h[name] = on.values[i : i+1 : i+1]
	}
	announces := c.announces()
	if announces || len(h[wire.AttemptHeader]) > 0 {
		set(wire.AttemptHeader, 0, strconv.Itoa(on.resends+1))
	}
	if left, send := c.left(h, until, announces); send {
		set(wire.TimeoutHeader, 1, strconv.FormatInt(max(1, left.Milliseconds()), 10))
	}
	if c.key != "" {
		set(wire.KeyHeader, 2, c.key)
	}
	// With this time the server can refuse a retry whose record it may have deleted.
	if c.intent != nil && c.intent.Again && h.Get(wire.FirstSentHeader) == "" {
		h[wire.FirstSentHeader] = []string{wire.FormatFirstSent(c.since)}
	}
	return h
}

// prepare lets BeforeAttempt change the header of an attempt. Changes of the key are undone.
func (c *call) prepare(r *http.Request) error {
	var keys [len(disguises)][]string
	for i, d := range disguises {
		keys[i] = r.Header[d.name]
	}
	if err := c.t.BeforeAttempt(r); err != nil {
		return fmt.Errorf("retryhttp: BeforeAttempt: %w", err)
	}
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	for i, d := range disguises {
		delete(r.Header, d.name)
		delete(r.Header, d.disguise)
		if keys[i] != nil {
			r.Header[d.name] = keys[i]
		}
	}
	return nil
}

// hide removes the signs by which net/http recognises a request that it may repeat on its own.
func (c *call) hide(h http.Header) {
	for _, d := range disguises {
		switch lines, ok := h[d.name]; {
		case ok && len(lines) == 0: // the caller has declared the request as repeatable without a key: see declared
			delete(h, d.name)
		case ok && c.disguised():
			rename(h, d.name, d.disguise)
		}
	}
}

// left returns the value of X-Request-Timeout for an attempt with the deadline until, and whether to set the header. The caller's own value may still
// be right.
func (c *call) left(h http.Header, until time.Time, announces bool) (left time.Duration, send bool) {
	if !until.IsZero() {
		left = time.Until(until)
	}
	switch _, said := h[wire.TimeoutHeader]; {
	case !said:
		return left, announces && !until.IsZero()
	case c.patience <= 0: // the value of the caller is not valid
		return 0, false
	case until.IsZero():
		left = c.patience
	}
	left = min(left, c.patience-time.Since(c.asked))
	return left, left.Round(time.Millisecond) < c.patience.Round(time.Millisecond)
}

// disguised reports whether the key must be hidden from net/http, which takes a key for the permission to send a request again on its own. net/http
// does not recognise a name in lower case, but for a server it is the same name. An attempt with a body has no GetBody, so net/http cannot repeat it
// anyway.
func (c *call) disguised() bool { return c.keyed && c.body.empty }

var disguises = [...]struct{ name, disguise string }{
	{wire.KeyHeader, strings.ToLower(wire.KeyHeader)},
	{headerKeyX, strings.ToLower(headerKeyX)},
}

func rename(h http.Header, from, to string) {
	if lines, ok := h[from]; ok {
		delete(h, from)
		h[to] = lines
	}
}

var (
	// errSlow ends an attempt that has taken too long.
	errSlow error = slow("retryhttp: the server has not answered this attempt in time")

	errImpatient error = slow("retryhttp: the time that the header X-Request-Timeout of the request allows is over")
)

type slow string

func (s slow) Error() string      { return string(s) }
func (slow) Timeout() bool        { return true }
func (slow) Is(target error) bool { return target == context.DeadlineExceeded }

var errLost = errors.New("retryhttp: this attempt was cancelled, because another attempt was answered first")

// handed is the body of an answer that the caller has received. Its end or its close ends the attempt.
type handed struct {
	io.ReadCloser

	on *sending
}

func (b *handed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.on.cancel(nil)
	}
	return n, err
}

func (b *handed) Close() error {
	err := b.ReadCloser.Close()
	b.on.cancel(nil)
	return err
}
