package kafkabroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/internal/keyed"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

const onTheWay = 512 // the largest number of messages without a confirmation

// errIdempotent refuses an idempotent client. Such a client numbers the records of a partition, and uses a number again after the
// broker has refused a record. Assume that the broker has written this record, that the answer was lost, and that a second
// attempt was refused. Then the next record has a number that the broker knows, and the broker discards the record and
// confirms it (https://github.com/twmb/franz-go/issues/1217).
var errIdempotent = errors.New("kafkabroker: the kgo client writes idempotently, so it may report success for a record that the broker has discarded. Try: kgo.DisableIdempotentWrite() when you make the client")

var errAcks = errors.New("kafkabroker: the kgo client does not wait until all in-sync replicas have stored a record. Try: kgo.RequiredAcks(kgo.AllISRAcks())")

// Publisher returns a publisher that writes messages to Kafka with client. The client must wait for all in-sync replicas, and must be made with
// [kgo.DisableIdempotentWrite]. With any other client, each message fails with an error for which [outbox.IsUnavailable] returns true. The caller
// closes client after the relay has stopped.
func Publisher(client *kgo.Client) outbox.Publisher {
	p := &publisher{client: client, sender: keyed.NewSender(onTheWay)}
	switch {
	case !waitsForAll(client):
		p.unfit = outbox.Unavailable(errAcks)
	case client.OptValue(kgo.DisableIdempotentWrite) != true:
		p.unfit = outbox.Unavailable(errIdempotent)
	}
	return p
}

func waitsForAll(client *kgo.Client) bool {
	return client.OptValue(kgo.RequiredAcks) == kgo.AllISRAcks()
}

type publisher struct {
	client *kgo.Client
	sender *keyed.Sender
	unfit  error // why the client must not be used, or nil
}

// Publish implements [outbox.Publisher].
func (p *publisher) Publish(ctx context.Context, messages []message.Message) []error {
	return p.sender.Publish(ctx, messages, func(m *message.Message) error { return p.send(ctx, m) })
}

func (p *publisher) send(ctx context.Context, m *message.Message) error {
	if p.unfit != nil {
		return p.unfit
	}
	return classify(m, p.client.ProduceSync(ctx, newRecord(m)).FirstErr())
}

func newRecord(m *message.Message) *kgo.Record {
	record := &kgo.Record{Topic: m.Topic, Value: m.Payload, Timestamp: m.CreatedAt}
	if m.Key != "" {
		record.Key = []byte(m.Key)
	}
	for name, value := range cloudevent.Headers(m, cloudevent.Kafka) {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return record
}

func classify(m *message.Message, err error) error {
	if err == nil {
		return nil
	}
	told := fmt.Errorf("kafkabroker: topic %s: %w", m.Topic, err)
	switch {
	case errors.Is(err, kgo.ErrClientClosed): // only the program closes the client: the library itself always connects again
		return outbox.Closed(fmt.Errorf("%w. Try: close the client after Run has returned", told))
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return retry.Permanent(fmt.Errorf("%w. Try: set a larger max.message.bytes for the topic and a larger kgo.ProducerBatchMaxBytes, or send a smaller message", told))
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidTimestamp):
		return retry.Permanent(told)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return outbox.Unavailable(fmt.Errorf("%w. Try: create the topic", told))
	}
	// The broker may take back other refusals of a record, such as a missing right. An error without a refusal says nothing about
	// the record.
	var refusal *kerr.Error
	if errors.As(err, &refusal) && !refusal.Retriable {
		return told
	}
	return outbox.Unavailable(told)
}
