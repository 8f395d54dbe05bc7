package redisbroker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

// dataField is the field with the payload. No header of a message can have this name.
const dataField = "ce_data"

// fields returns the names and values of the fields of m in a stream.
func fields(m *message.Message) []string {
	list := []string{dataField, string(m.Payload)}
	for name, value := range cloudevent.Headers(m, cloudevent.Kafka) {
		list = append(list, name, value)
	}
	return list
}

// Decode returns the CloudEvent in m, an entry of a Redis stream. The topic of the message is the name of the stream (the parameter stream). The
// payload of the message is the field ce_data of m, and the other fields of m become the headers of the message.
func Decode(stream string, m redis.XMessage) (message.Message, error) {
	data, _ := m.Values[dataField].(string)
	decoded, err := cloudevent.Decode(func(yield func(name, value string) bool) {
		for _, name := range slices.Sorted(maps.Keys(m.Values)) {
			value, is := m.Values[name].(string)
			if is && name != dataField && !yield(name, value) {
				return
			}
		}
	}, cloudevent.Kafka, []byte(data))
	decoded.Topic = stream
	if decoded.CreatedAt.IsZero() {
		decoded.CreatedAt = addedAt(m.ID)
	}
	if err != nil {
		return decoded, fmt.Errorf("redisbroker: stream %s: %w", stream, err)
	}
	return decoded, nil
}

// addedAt returns the time at which an entry was added, from the ID of the entry. It returns the zero time if a program has chosen
// the ID and the ID contains no plausible time.
func addedAt(id string) time.Time {
	first, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(first, 10, 64)
	if at := time.UnixMilli(ms).UTC(); err == nil && at.Year() >= 2000 && at.Year() <= 9999 {
		return at
	}
	return time.Time{}
}
