package kafkabroker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// Decode returns the CloudEvent in r. If the event has no key, the key of the record is that of the message, unless it is
// no printable text, such as a number in binary: then the message has none.
func Decode(r *kgo.Record) (message.Message, error) {
	decoded, err := cloudevent.Decode(func(yield func(name, value string) bool) {
		for _, h := range r.Headers {
			if !yield(h.Key, string(h.Value)) {
				return
			}
		}
	}, cloudevent.Kafka, r.Value)
	decoded.Topic = r.Topic
	if key := string(r.Key); decoded.Key == "" && message.CheckText("key", key, message.MaxText) == nil {
		decoded.Key = key
	}
	if decoded.CreatedAt.IsZero() {
		decoded.CreatedAt = r.Timestamp
	}
	if err != nil {
		return decoded, fmt.Errorf("kafkabroker: topic %s: %w", r.Topic, err)
	}
	return decoded, nil
}
