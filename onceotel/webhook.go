package onceotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncelib/once/webhook"
)

// Attributes of the spans of webhooks.
const (
	webhookEndpoint = attribute.Key("once.webhook.endpoint")
	webhookType     = attribute.Key("once.webhook.type")
)

// WebhookSpan implements [webhook.Tracer]. WebhookSpan starts a span with the name "webhook {type}" for each request to an endpoint. The span of a
// request begins a new trace, and links to the span in which the event was sent. The span of a request does not contain the URL, the tenant or the
// text of an error, because such values may show data of a customer or of the internal network.
func (t *Telemetry) WebhookSpan(ctx context.Context, s webhook.Span) (_ context.Context, end func(status int, failure string)) {
	ctx, span := t.tracer.Start(ctx, "webhook "+s.EventType, trace.WithSpanKind(trace.SpanKindClient), trace.WithNewRoot(), trace.WithAttributes( //nolint:spancheck // the end that is returned ends it
		webhookType.String(s.EventType), webhookEndpoint.String(s.Endpoint), semconv.MessagingMessageID(s.EventID), attemptKey.Int(s.Attempt)), trace.WithLinks(links(s.Trace)...))
	return ctx, func(status int, failure string) { //nolint:spancheck // so it does
		if status > 0 {
			span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		}
		if failure != "" {
			span.SetAttributes(semconv.ErrorTypeKey.String(failure))
			span.SetStatus(codes.Error, failure)
		}
		span.End()
	}
}
