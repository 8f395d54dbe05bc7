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

// Transport is a [retryhttp.Transport] with spans: see [Telemetry.Transport]. RoundTrip is that of a whole call.
type Transport struct {
	*retryhttp.Transport

	of *Telemetry
}

// Transport returns a copy of a transport that makes a span for each call, until the header of its answer, and in it a span of kind CLIENT
// for each attempt, with the trace context in its header. A nil transport is the zero one. Its Base must make no spans itself, as that of
// package otelhttp does. It records the instruments of retries, unless [retryhttp.WithPolicy] has set another Observe.
func (t *Telemetry) Transport(of *retryhttp.Transport) *Transport {
	var own retryhttp.Transport
	if of != nil {
		own = *of
	}
	base := own.Base
	if base == nil {
		base = http.DefaultTransport
	}
	own.Base = &attempts{base, t}
	own.Policy.Observe = t.observeRetry(own.Policy.Observe)
	return &Transport{&own, t}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, span := t.of.startCall(req.Context(), "call "+spanName(req), attributesOf(req)...)
	defer span.End()
	resp, err := t.Transport.RoundTrip(req.WithContext(ctx))
	switch {
	case err != nil:
		fail(span, err)
	case retryhttp.GivenUp(resp) != nil:
		fail(span, retryhttp.GivenUp(resp))
	}
	if resp != nil {
		span.SetAttributes(semconv.HTTPResponseStatusCode(resp.StatusCode))
	}
	return resp, err
}

// attempts is the Base of a transport.
type attempts struct {
	base http.RoundTripper
	of   *Telemetry
}

// RoundTrip implements [http.RoundTripper].
func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	attrs := attributesOf(req)
	if n := retryhttp.ResendCount(req.Context()); n > 0 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(n))
	}
	ctx, span := a.of.tracer.Start(req.Context(), spanName(req), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	defer span.End()
	own := req.WithContext(ctx)
	if own.Header = maps.Clone(req.Header); own.Header == nil {
		own.Header = http.Header{}
	}
	a.of.inject(ctx, own.Header)
	resp, err := a.base.RoundTrip(own)
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
	return resp, err
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (a *attempts) CloseIdleConnections() {
	if base, ok := a.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Do is [retry.Do] with a span for the call, and in it one for each attempt. name is that of the spans: one of few.
func (t *Telemetry) Do(ctx context.Context, name string, p *retry.Policy, fn func(ctx context.Context, attempt int) error) error {
	var own retry.Policy
	if p != nil {
		own = *p
	}
	own.Observe = t.observeRetry(own.Observe)
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

// observeRetry returns what observes the calls of a policy.
func (t *Telemetry) observeRetry(next func(context.Context, retry.Event)) func(context.Context, retry.Event) {
	return func(ctx context.Context, e retry.Event) {
		retry.Metrics(t)(ctx, e)
		if span, ok := ctx.Value(callKey{}).(trace.Span); ok && span.IsRecording() { // a call of retryhttp.Resume has none
			addRetry(span, &e)
		}
		if next != nil {
			next(ctx, e)
		}
	}
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

// fail says that the work of a span has failed; that its caller has gone away is no failure.
func fail(span trace.Span, err error) {
	span.SetAttributes(semconv.ErrorType(err))
	if !errors.Is(err, context.Canceled) {
		span.SetStatus(codes.Error, err.Error())
	}
}

// spanName is what the HTTP conventions call the span of a request whose route is not known.
func spanName(req *http.Request) string { return cmp.Or(knownMethod(req), "HTTP") }

// knownMethod returns the method of a request if it is one of those that the HTTP conventions know, else "".
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

// attributesOf describes a request. User and query of its URL may be secret.
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
