package onceotel_test

import (
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/webhook"
)

// TestWebhooksAreSeen: a request to an endpoint is a client span, in a trace of its own that links to the Send, with its status; one that has failed says so in a word.
func TestWebhooksAreSeen(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	ctx, other := tel.provider.Tracer("x").Start(t.Context(), "other")
	for _, c := range []struct {
		status  int
		failure string
		code    codes.Code
	}{{200, "", codes.Unset}, {503, "503", codes.Error}, {0, "timeout", codes.Error}} {
		_, end := tel.WebhookSpan(ctx, webhook.Span{EventType: "refund.done", EventID: "msg_1", Endpoint: "ep_1", Attempt: 2, Trace: onceotel.Trace(ctx)})
		end(c.status, c.failure)
		span := named(t, tel.take(), "webhook refund.done")
		if len(span.Links) != 1 || span.Links[0].SpanContext.SpanID() != other.SpanContext().SpanID() {
			t.Errorf("%+v: it links to %+v", c, span.Links)
		}
		if span.Status.Code != c.code || span.Parent.IsValid() || text(span.Attributes, "error.type") != c.failure || text(span.Attributes, "once.webhook.endpoint") != "ep_1" || text(span.Attributes, "messaging.message.id") != "msg_1" {
			t.Errorf("%+v: %v, %v", c, span.Status, span.Attributes)
		}
	}
	other.End()
}
