package cloudevent

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/oncelib/once/message"
)

// Attributes returns the attributes of m as a CloudEvent 1.0, by name, without the prefix that a protocol adds
// to names. The attributes are specversion, id, source, type and time; subject (the key) and datacontenttype, if
// they are known; and the extensions partitionkey, sequence and traceparent. All values of sequence have the
// same length, as the specification of the extension sequence requires, so that the values sort as text.
func Attributes(m *message.Message) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		var created, sequence string
		if !m.CreatedAt.IsZero() {
			created = m.CreatedAt.UTC().Format(time.RFC3339Nano)
		}
		if m.Seq > 0 {
			sequence = fmt.Sprintf("%019d", m.Seq)
		}
		for _, attribute := range [...]struct{ name, value string }{
			{"specversion", "1.0"},
			{"id", m.ID},
			{"source", m.Source},
			{"type", m.Type},
			{"time", created},
			{"subject", m.Key},
			{"datacontenttype", typeOfPayload(m)},
			{"partitionkey", m.Key},
			{"sequence", sequence},
			{"traceparent", m.Trace},
		} {
			if attribute.value != "" && !yield(attribute.name, attribute.value) {
				return
			}
		}
	}
}

// typeOfPayload returns the media type of the payload, or "" if it is not known.
func typeOfPayload(m *message.Message) string {
	for name, value := range m.Headers {
		if strings.EqualFold(name, contentType) {
			return value
		}
	}
	return ""
}
