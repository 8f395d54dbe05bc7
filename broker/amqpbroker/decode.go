package amqpbroker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// The AMQP binding of CloudEvents allows two prefixes for the names of attributes. Senders should use the first prefix.
const (
	attribute      = "cloudEvents_"
	olderAttribute = "cloudevents:"
)

const (
	messageID  = "idempotency-key" // the ID of a message that is not a CloudEvent
	deliveries = "x-delivery-count"
)

// Decode returns the CloudEvent in d. The topic is the routing key of d. A message that is not a CloudEvent must have the property message-id or a
// header Idempotency-Key. The value of this property or header becomes the ID of the message.
func Decode(d amqp.Delivery) (message.Message, error) {
	decoded, err := cloudevent.Decode(headers(d), cloudevent.AMQP, d.Body)
	decoded.Topic = d.RoutingKey
	if err != nil {
		return decoded, fmt.Errorf("amqpbroker: routing key %s: %w", d.RoutingKey, err)
	}
	return decoded, nil
}

// headers returns the headers of a delivery, and the properties with the same meaning as headers.
func headers(d amqp.Delivery) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		if d.ContentType != "" && !yield(mediaType, d.ContentType) {
			return
		}
		hasID := false
		for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
			value, ok := text(d.Headers[name])
			lower := strings.ToLower(name)
			// The property wins over a header with the media type, because the AMQP binding defines the property.
			if !ok || lower == mediaType && d.ContentType != "" || isOfServer(lower) {
				continue
			}
			if rest, older := strings.CutPrefix(lower, olderAttribute); older {
				name = attribute + rest
			}
			hasID = hasID || lower == messageID
			if !yield(name, value) {
				return
			}
		}
		if d.MessageId != "" && !hasID {
			yield(messageID, d.MessageId)
		}
	}
}

// isOfServer reports whether queues have added a header on the way of the message. name is in lower case.
func isOfServer(name string) bool {
	return strings.HasPrefix(name, "x-death") || strings.HasPrefix(name, "x-first-death") || strings.HasPrefix(name, "x-last-death") || name == deliveries ||
		name == "x-acquired-count"
}

// text returns the value of a header as text. ok is false for tables and lists.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), true
	case bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, int, float32, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// deliveryOf returns how often the server has delivered a message. Only quorum queues count the deliveries.
func deliveryOf(d amqp.Delivery) int {
	switch n := d.Headers[deliveries].(type) {
	case int64:
		return int(min(max(n, 0), 1<<30)) + 1
	case int32:
		return int(max(n, 0)) + 1
	}
	// A classic queue only says that this is not the first delivery.
	if d.Redelivered {
		return 2
	}
	return 1
}
