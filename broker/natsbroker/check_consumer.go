package natsbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	shortAckWait = 5 * time.Second
	smallPending = 100
)

// CheckConsumer reads the settings of a durable consumer. The parameter durable is the name of the consumer, and the parameter stream is the name of
// its stream. CheckConsumer returns one sentence for each setting that endangers a promise of an inbox, and an error if it fails to read the
// settings. A consumer that [Consume] has created has only settings that keep the promises.
func CheckConsumer(ctx context.Context, js jetstream.JetStream, stream, durable string) ([]string, error) {
	consumer, err := js.Consumer(ctx, stream, durable)
	if err != nil {
		return nil, fmt.Errorf("natsbroker: read the settings of consumer %s of stream %s: %w", durable, stream, err)
	}
	findings := checkConsumer(consumer.CachedInfo().Config)
	for i, finding := range findings {
		findings[i] = fmt.Sprintf("Consumer %s of stream %s %s", durable, stream, finding)
	}
	return findings, nil
}

func checkConsumer(c jetstream.ConsumerConfig) (findings []string) {
	add := func(is bool, finding string, args ...any) {
		if is {
			findings = append(findings, fmt.Sprintf(finding, args...))
		}
	}
	add(c.AckPolicy != jetstream.AckExplicitPolicy, "does not wait for the acknowledgement of each message: a message whose handler fails is not delivered again. Try: ack_policy: explicit")
	add(c.MaxDeliver > 0, "gives a message up after %d deliveries without keeping it as a dead letter. Try: max_deliver: -1, because the inbox decides when to give up", c.MaxDeliver)
	add(c.AckPolicy == jetstream.AckExplicitPolicy && len(c.BackOff) == 0 && c.AckWait < shortAckWait,
		"delivers a message again when it is not acknowledged within %v: a short pause of a process makes duplicates. Try: ack_wait: 30s", c.AckWait)
	add(len(c.BackOff) > 0, "has its own backoff, which delivers a message again while a slow handler still works on it. Try: no backoff, because the inbox decides when to try again")
	add(c.MaxAckPending > 0 && c.MaxAckPending < smallPending, "delivers at most %d unacknowledged messages at a time: a few messages that fail stop the delivery of all others. Try: max_ack_pending: %d", c.MaxAckPending, maxAckPending)
	add(c.MemoryStorage, "keeps its state in memory: after a restart of the server all messages are delivered again. Try: mem_storage: false")
	add(c.Durable == "", "is not durable: messages that arrive while no process is connected are never delivered. Try: a durable consumer")
	add(c.DeliverPolicy != jetstream.DeliverAllPolicy, "does not begin with the first message of the stream, so earlier messages are never delivered. Try: deliver_policy: all")
	return findings
}
