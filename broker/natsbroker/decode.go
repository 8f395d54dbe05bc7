package natsbroker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// Decode returns the CloudEvent in m. The topic is the subject of m.
func Decode(m jetstream.Msg) (message.Message, error) {
	headers := m.Headers()
	decoded, err := cloudevent.Decode(func(yield func(name, value string) bool) {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			for _, value := range headers[name] {
				if !yield(name, value) {
					return
				}
			}
		}
	}, cloudevent.NATS, m.Data())
	decoded.Topic = m.Subject()
	if err != nil {
		return decoded, fmt.Errorf("natsbroker: subject %s: %w", m.Subject(), err)
	}
	return decoded, nil
}
