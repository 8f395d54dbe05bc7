package retryhttp

import (
	"context"
	"net/http"

	"github.com/oncelib/once/retry"
)

// Tracer starts a span for each call, and a child span for each attempt. An implementation may start objects other than spans, if these objects
// end at the same time as the span would end.
type Tracer interface {
	// CallSpan is called when a call begins. The returned context becomes the context of the call. The function end is called once, when the header
	// of the last answer has arrived or the call has failed; [GivenUp] reports whether an answer is a failure.
	CallSpan(req *http.Request) (_ context.Context, end func(*http.Response, error))

	// CallEvent is called for each event of the call, like [retry.Policy].Observe, with the context of the call.
	CallEvent(ctx context.Context, e retry.Event)

	// AttemptSpan is called for each attempt. For two attempts that are sent in parallel (Transport.Hedge), AttemptSpan may be called concurrently.
	// The Transport sends the returned request, which must be a copy of req: only the header and the context may differ from req. The function end
	// is called once; if Base panics, both arguments of end are nil.
	AttemptSpan(req *http.Request) (_ *http.Request, end func(*http.Response, error))
}

// roundTrip sends an attempt, and reports it to the tracer.
func (c *call) roundTrip(req *http.Request) (resp *http.Response, err error) {
	if c.t.Tracer == nil {
		return c.t.base().RoundTrip(req)
	}
	own, end := c.t.Tracer.AttemptSpan(req)
	defer func() { end(resp, err) }()
	return c.t.base().RoundTrip(own)
}
