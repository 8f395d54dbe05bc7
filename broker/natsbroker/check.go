package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/message"
)

const (
	// redelivery is the longest time after its first delivery at which a relay with default settings may deliver a message again. It
	// consists of the longest wait for a destination, and the take-over from a dead process.
	redelivery = 10 * time.Minute

	shortAge = 24 * time.Hour
)

// Check reads the settings of the server and of the streams that store topics. Check returns one sentence for each setting that endangers a promise
// of an outbox, and an error if it fails to read the settings. Check does not find out how often the server calls fsync, because NATS does not
// report the setting sync_interval.
func Check(ctx context.Context, js jetstream.JetStream, topics ...string) ([]string, error) {
	var findings []string
	if most := js.Conn().MaxPayload(); most < message.MaxPayload+message.MaxHeaders {
		findings = append(findings, fmt.Sprintf("The server refuses messages larger than %d bytes, headers included; such a message and all later messages of its key would not be delivered. Try: max_payload: 2MB in the configuration of the server, or a smaller MaxPayload of the outbox", most))
	}
	checked := map[string]bool{}
	for _, topic := range topics {
		name, err := js.StreamNameBySubject(ctx, topic)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			findings = append(findings, fmt.Sprintf("No JetStream stream has the subject %s, so messages for it wait in the outbox. Try: add the subject to a stream", topic))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("natsbroker: look up the stream of subject %s: %w", topic, err)
		}
		// Several topics may belong to one stream, which is checked once.
		if checked[name] {
			continue
		}
		checked[name] = true
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("natsbroker: read the settings of stream %s: %w", name, err)
		}
		for _, finding := range checkStream(stream.CachedInfo()) {
			findings = append(findings, fmt.Sprintf("Stream %s %s", name, finding))
		}
	}
	return findings, nil
}

func checkStream(info *jetstream.StreamInfo) (findings []string) {
	c := info.Config
	add := func(is bool, finding string, args ...any) {
		if is {
			findings = append(findings, fmt.Sprintf(finding, args...))
		}
	}
	add(c.Storage == jetstream.MemoryStorage, "keeps its messages in memory: a restart of the server loses them. Try: a stream with file storage")
	add(c.PersistMode == jetstream.AsyncPersistMode, "confirms messages before they are written to the disk. Try: the default persist mode")
	add(c.NoAck, "sends no confirmations (no_ack), so the relay never counts a message as delivered. Try: no_ack: false")
	add(c.Replicas <= 1, "has one replica: the loss of one disk loses its messages, and a power failure loses the newest ones. Try: three replicas, or sync_interval: always in the server's configuration")
	add(c.Duplicates < redelivery, "remembers message IDs for only %v, and stores a message twice if the relay delivers it again after that. Try: a duplicate window of %v", c.Duplicates, redelivery)
	add(c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0),
		"deletes old messages when the stream is full, also messages that no consumer has read. Try: discard: new")
	add(c.MaxAge > 0 && c.MaxAge < shortAge, "deletes messages after %v, also messages that no consumer has read. Try: max_age of a day or more", c.MaxAge)
	add(c.MaxMsgSize > 0 && c.MaxMsgSize < message.MaxPayload+message.MaxHeaders, "refuses messages larger than %d bytes, headers included; such a message and all later messages of its key would not be delivered. Try: a larger max_msg_size, or a smaller MaxPayload of the outbox", c.MaxMsgSize)
	add(c.Retention == jetstream.InterestPolicy && info.State.Consumers == 0, "keeps messages only for its consumers (interest retention), and has no consumer: each message is deleted at once. Try: create the consumers first")
	return findings
}
