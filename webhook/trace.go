package webhook

import (
	"context"
	"errors"
	"strconv"
)

// Span describes, for a [Tracer], one request to an endpoint.
type Span struct {
	EventType string
	EventID   string // the header webhook-id
	Endpoint  string // the ID of the endpoint
	Attempt   int    // the number of the attempt, from 1
	Trace     string // the W3C traceparent that Config.Trace has returned when the event was sent; "" if there was no trace
}

// Tracer starts a span for each request to an endpoint.
type Tracer interface {
	// WebhookSpan is called when the request begins. The request is made with the returned context. The function
	// end is called one time, when the request has ended. The first argument of end is the HTTP status of the
	// answer, or 0 if no answer was received. The second argument of end is one word for the reason of a failure,
	// or "" if the event was delivered; the word contains no text that was received from the network.
	WebhookSpan(ctx context.Context, s Span) (_ context.Context, end func(status int, failure string))
}

// traced makes an attempt, and reports it to RelayConfig.Tracer.
func (r *Relay) traced(ctx context.Context, d *delivery, q *request) (a answer) {
	if r.cfg.Tracer == nil {
		return q.send(ctx, r.client)
	}
	ctx, end := r.cfg.Tracer.WebhookSpan(ctx, Span{EventType: d.kind, EventID: d.uid, Endpoint: d.target.uid, Attempt: d.attempts + 1, Trace: d.trace})
	a = q.send(ctx, r.client)
	failure := ""
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && a.Status == 0:
		failure = "drained" // the end of Run has cancelled the request
	case a.Status == 0:
		failure = a.Error
	case !a.delivered():
		failure = strconv.Itoa(a.Status)
	}
	end(a.Status, failure)
	return a
}
