package kafkabroker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// Decode returns the CloudEvent in r. If the event has no key, the message gets the key of the record. If the key of the record is not printable
// text (for example, if it is a binary number), the message has no key.
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
