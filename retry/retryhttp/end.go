package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
)

// hand returns the answer to the caller. The response gets the caller's request, with the key that was sent.
func (c *call) hand(a answer, why *retry.Error) (*http.Response, error) {
	a.sending.gaveUp = why
	// GivenUp and a later redirect find the attempt by this context.
	a.sending.handing = handing{c.req.Context(), a.sending}
	r := c.req.WithContext(&a.sending.handing)
	if c.key != "" {
		if r.Header = maps.Clone(r.Header); r.Header == nil {
			r.Header = make(http.Header)
		}
		r.Header[wire.KeyHeader] = []string{c.key}
	}
	a.resp.Request = r
	a.keep()
	return a.resp, nil
}

// end returns the result of a call that has failed: the last answer, or an error.
func (c *call) end(a answer, stop retry.Reason) (*http.Response, error) {
	failure := a.failure()
	if stop == retry.ReasonOpen || stop == retry.ReasonCancelled && c.last != nil {
		failure = c.last // the error of this attempt says less than the failure of the previous one
	}
	why := c.gaveUp(stop, failure)
	if stop == retry.ReasonOpen {
		why.Cause = a.err
	}
	switch {
	// As with any RoundTripper, an answer with a bad status is not an error.
	case a.resp != nil && stop != retry.ReasonCancelled:
		return c.hand(a, why)
	case stop == retry.ReasonPointless, stop == retry.ReasonCancelled && c.last == nil && a.resp == nil:
		return nil, a.err
	}
	// The caller gets an error, so the body of the answer has no reader.
	a.discard()
	return nil, why
}

func (c *call) gaveUp(reason retry.Reason, last error) *retry.Error {
	e := &retry.Error{Reason: reason, Attempts: c.attempts(), Last: last}
	switch reason {
	case retry.ReasonCancelled:
		e.Cause = ended(c.req.Context())
	case retry.ReasonNotSafe:
		if c.once {
			e.Cause = errAtMostOnce
		}
	case retry.ReasonTooLate:
		if c.impatient() {
			e.Cause = errImpatient
		}
	case retry.ReasonExpired:
		e.Cause = fmt.Errorf("the key was first sent at %s, and must not be sent after %s", c.since.Format(time.RFC3339), c.expiry().Format(time.RFC3339))
	}
	return e
}

var errAtMostOnce = errors.New("this request may be sent only once, and the server has perhaps received it. Try: ask the server for the outcome")

func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err { //nolint:errorlint // the cause says more than the error
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// GivenUp returns the reason why no further attempt followed the failed response resp. GivenUp returns nil if resp is not a failure, or
// if resp does not come from a [Transport].
func GivenUp(resp *http.Response) *retry.Error {
	if s := sendingOf(resp); s != nil {
		return s.gaveUp
	}
	return nil
}

// sendingOf returns the attempt that resp answers, or nil if no Transport has made it.
func sendingOf(resp *http.Response) *sending {
	if resp == nil || resp.Request == nil {
		return nil
	}
	s, _ := resp.Request.Context().Value(keyOfAnswer{}).(*sending)
	return s
}

// handing is the context of the Request in a response. It is the context of the caller, and also leads to the attempt.
type handing struct {
	context.Context //nolint:containedctx // handing is a context

	attempt *sending
}

type keyOfAnswer struct{}

func (h *handing) Value(key any) any {
	if key == (keyOfAnswer{}) {
		return h.attempt
	}
	return h.Context.Value(key)
}
