package retryhttp

import (
	"context"
	"net/http"

	"github.com/oncelib/once/retry"
)

// Tracer starts a span for each call, and in it one for each attempt, or other things that last as long.
type Tracer interface {
	// CallSpan is called when a call begins. The call has the context that it returns. end is called once, when the header of the
	// answer is there; [GivenUp] tells whether it is a failure.
	CallSpan(req *http.Request) (_ context.Context, end func(*http.Response, error))

	// CallEvent is called with the context of the call, as [retry.Policy].Observe is.
	CallEvent(ctx context.Context, e retry.Event)

	// AttemptSpan is called for each attempt, with hedges at the same time. The request that it returns is sent: a copy of req, with a header and a context of its own.
	// end is called once, without an answer and an error if Base panics.
	AttemptSpan(req *http.Request) (_ *http.Request, end func(*http.Response, error))
}

// roundTrip sends an attempt, and shows it to the tracer.
func (c *call) roundTrip(req *http.Request) (resp *http.Response, err error) {
	if c.t.Tracer == nil {
		return c.t.base().RoundTrip(req)
	}
	own, end := c.t.Tracer.AttemptSpan(req)
	defer func() { end(resp, err) }()
	return c.t.base().RoundTrip(own)
}
