package onceotel

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// Attributes of the spans of calls.
const (
	attemptsKey = attribute.Key("once.attempts")
	stopKey     = attribute.Key("once.stop")
	waitKey     = attribute.Key("once.wait_ms")
)

// CallSpan implements [retryhttp.Tracer]. CallSpan starts a span for each call. The span ends when the header of the answer has
// arrived.
func (t *Telemetry) CallSpan(req *http.Request) (_ context.Context, end func(*http.Response, error)) {
	ctx, span := t.startCall(req.Context(), "call "+spanName(req), attributesOf(req)...)
	return ctx, func(resp *http.Response, err error) {
		switch {
		case err != nil:
			fail(span, err)
		case retryhttp.GivenUp(resp) != nil:
			fail(span, retryhttp.GivenUp(resp))
		}
		if resp != nil {
			span.SetAttributes(semconv.HTTPResponseStatusCode(resp.StatusCode))
		}
		span.End()
	}
}

// CallEvent implements [retryhttp.Tracer]. CallEvent writes the event to the span of the
// call.
func (t *Telemetry) CallEvent(ctx context.Context, e retry.Event) {
	if span, ok := ctx.Value(callKey{}).(trace.Span); ok && span.IsRecording() { // a call of retryhttp.Resume has no span
		addRetry(span, &e)
	}
}

// AttemptSpan implements [retryhttp.Tracer]. AttemptSpan starts a span of kind CLIENT for each attempt, and writes the trace context of the span
// into the header of the request. The Base of the transport must not make spans itself, so do not use a transport of package otelhttp as the
// Base.
func (t *Telemetry) AttemptSpan(req *http.Request) (_ *http.Request, end func(*http.Response, error)) {
	attrs := attributesOf(req)
	if n := retryhttp.ResendCount(req.Context()); n > 0 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(n))
	}
	ctx, span := t.tracer.Start(req.Context(), spanName(req), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	own := req.WithContext(ctx)
	if own.Header = maps.Clone(req.Header); own.Header == nil {
		own.Header = http.Header{}
	}
	t.inject(ctx, own.Header)
	return own, func(resp *http.Response, err error) {
		switch {
		case err != nil:
			fail(span, err)
		case resp != nil:
			span.SetAttributes(semconv.HTTPResponseStatusCode(resp.StatusCode))
			if resp.StatusCode >= http.StatusBadRequest {
				span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(resp.StatusCode)))
				span.SetStatus(codes.Error, "")
			}
		}
		span.End()
	}
}

// Do is [retry.Do] with a span for the call, and a child span for each attempt. The parameter name is the name of the spans; use a small
// number of names. Do records no metrics. To record metrics, set p.Observe to the function that [retry.Metrics] returns.
func (t *Telemetry) Do(ctx context.Context, name string, p *retry.Policy, fn func(ctx context.Context, attempt int) error) error {
	var own retry.Policy
	if p != nil {
		own = *p
	}
	next := own.Observe
	own.Observe = func(ctx context.Context, e retry.Event) {
		t.CallEvent(ctx, e)
		if next != nil {
			next(ctx, e)
		}
	}
	ctx, span := t.startCall(ctx, "call "+name)
	defer span.End()
	err := retry.Do(ctx, &own, func(ctx context.Context, attempt int) error {
		ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(attemptKey.Int(attempt)))
		defer span.End()
		err := fn(ctx, attempt)
		if err != nil {
			fail(span, err)
		}
		return err
	})
	if err != nil {
		fail(span, err)
	}
	return err
}

// callKey is the key of the span of a call in its context.
type callKey struct{}

// startCall starts the span of a call, which the caller ends.
func (t *Telemetry) startCall(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(attrs...)) //nolint:spancheck // the caller ends it
	return context.WithValue(ctx, callKey{}, span), span                   //nolint:spancheck // the caller ends it
}

// addRetry writes an event of a call to its span.
func addRetry(span trace.Span, e *retry.Event) {
	if e.Final() {
		span.SetAttributes(attemptsKey.Int(e.Attempt))
		if e.Stop != "" {
			span.SetAttributes(stopKey.String(string(e.Stop)))
		}
		return
	}
	attrs := []attribute.KeyValue{attemptKey.Int(e.Attempt)}
	if e.Type == retry.EventFailed {
		attrs = append(attrs, milliseconds(waitKey, e.Wait))
	}
	if e.Err != nil {
		attrs = append(attrs, errorKey.String(e.Err.Error()))
	}
	span.AddEvent("once.retry."+string(e.Type), trace.WithAttributes(attrs...))
}

// fail marks a span as failed. If the caller has gone away, that is no failure.
func fail(span trace.Span, err error) {
	span.SetAttributes(semconv.ErrorType(err))
	if !errors.Is(err, context.Canceled) {
		span.SetStatus(codes.Error, err.Error())
	}
}

// spanName returns the name of the span of a request without a known route, as the HTTP conventions define it.
func spanName(req *http.Request) string { return cmp.Or(knownMethod(req), "HTTP") }

// knownMethod returns the method of a request if the HTTP conventions list it, and otherwise "".
func knownMethod(req *http.Request) string {
	switch req.Method {
	case "":
		return http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, semconv.HTTPRequestMethodQuery.Value.AsString():
		return req.Method
	}
	return ""
}

// attributesOf returns the attributes of a request, without the user and the query of its URL, which may be secret.
func attributesOf(req *http.Request) []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(knownMethod(req))}
	if knownMethod(req) == "" {
		attrs = []attribute.KeyValue{semconv.HTTPRequestMethodOther, semconv.HTTPRequestMethodOriginal(req.Method)}
	}
	if req.URL == nil {
		return attrs
	}
	u := *req.URL
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	attrs = append(attrs, semconv.URLFull(u.String()), semconv.ServerAddress(u.Hostname()))
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		if port = 80; u.Scheme == "https" {
			port = 443
		}
	}
	return append(attrs, semconv.ServerPort(port))
}
