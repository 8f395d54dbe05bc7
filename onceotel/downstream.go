package onceotel

import (
	"context"
	"net/http"
	"strings"
	"unicode"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"

	"github.com/oncelib/once/internal/base/wire"
)

// Downstream says how the key and the correlation id of an operation are sent to the services that the handler of the
// operation calls.
type Downstream uint8

const (
	// KeyStays means that neither the key nor the correlation id of the operation is sent to other services.
	KeyStays Downstream = iota

	// KeyInBaggage sends the key and the correlation id in the OpenTelemetry baggage, as the members once.key and once.correlation_id. Every
	// service that propagates baggage also sends the key and the id to the services that it calls.
	KeyInBaggage

	// KeyInHeader sends the key and the correlation id in the headers X-Idempotency-Key and X-Correlation-Id of requests of a [retryhttp.Transport]
	// whose Tracer is the Telemetry. A request that already has one of these headers or an Idempotency-Key is not changed. Many services, also
	// services with package oncehttp, use X-Idempotency-Key as the key of the request. With KeyInHeader, all requests of one operation to a service
	// that uses X-Idempotency-Key have the same key. So use KeyInHeader only if a handler makes only one call to each service.
	KeyInHeader
)

// These are names of baggage members and of headers.
const (
	baggageKey         = "once.key"
	baggageCorrelation = "once.correlation_id"
	headerKey          = "X-Idempotency-Key"
	headerCorrelation  = "X-Correlation-Id"
)

// withBaggage returns ctx with the operation's key and correlation id in the baggage, if Config.Downstream says so.
func (t *Telemetry) withBaggage(ctx context.Context, o *operation) context.Context {
	if t.cfg.Downstream != KeyInBaggage {
		return ctx
	}
	bag := baggage.FromContext(ctx)
	for _, each := range [...]struct{ name, value string }{{baggageKey, o.key}, {baggageCorrelation, o.CorrelationID}} {
		m, err := baggage.NewMemberRaw(each.name, each.value)
		if err != nil || each.value == "" {
			continue
		}
		if next, err := bag.SetMember(m); err == nil { // otherwise the baggage is full
			bag = next
		}
	}
	return baggage.ContextWithBaggage(ctx, bag)
}

// inject writes the trace context into the header of a request. With KeyInHeader it also writes the operation's key and correlation id.
func (t *Telemetry) inject(ctx context.Context, h http.Header) {
	t.cfg.Propagator.Inject(ctx, propagation.HeaderCarrier(h))
	o := t.operationOf(ctx)
	if o == nil || t.cfg.Downstream != KeyInHeader {
		return
	}
	if !has(h, headerKey) && !has(h, wire.KeyHeader) {
		set(h, headerKey, o.key)
	}
	if !has(h, headerCorrelation) {
		set(h, headerCorrelation, o.CorrelationID)
	}
}

// set sets a field, unless net/http would then refuse the request.
func set(h http.Header, name, value string) {
	if value != "" && !strings.ContainsFunc(value, unicode.IsControl) {
		h.Set(name, value)
	}
}

// has reports whether a header has a field, in upper or lower case: package retryhttp writes keys in lower case, so that net/http does not see them.
func has(h http.Header, name string) bool {
	for field := range h {
		if strings.EqualFold(field, name) {
			return true
		}
	}
	return false
}
