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

// CheckConsumer reads the settings of the consumer durable of stream. It returns one sentence for each setting that endangers a promise of an inbox,
// and an error if it cannot read the settings. A consumer that [Consume] has created has no such settings.
func CheckConsumer(ctx context.Context, js jetstream.JetStream, stream, durable string) ([]string, error) {
	consumer, err := js.Consumer(ctx, stream, durable)
	if err != nil {
		return nil, fmt.Errorf("natsbroker: ask for the settings of consumer %s of stream %s: %w", durable, stream, err)
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
	add(c.AckPolicy != jetstream.AckExplicitPolicy, "does not wait for the acknowledgement of each message: one that fails is not delivered again. Try: ack_policy: explicit")
	add(c.MaxDeliver > 0, "gives a message up after %d deliveries, and no dead letter tells of it. Try: max_deliver: -1; the inbox decides", c.MaxDeliver)
	add(c.AckPolicy == jetstream.AckExplicitPolicy && len(c.BackOff) == 0 && c.AckWait < shortAckWait,
		"delivers a message again after %v without a sign of life: a short pause of a process makes duplicates. Try: ack_wait: 30s", c.AckWait)
	add(len(c.BackOff) > 0, "has its own pauses between deliveries, which come before the end of a slow handler. Try: no backoff; the inbox decides")
	add(c.MaxAckPending > 0 && c.MaxAckPending < smallPending, "delivers at most %d messages that are not acknowledged: few that fail stop all others."+
		" Try: max_ack_pending: %d", c.MaxAckPending, maxAckPending)
	add(c.MemoryStorage, "is in memory: after a restart of the server all messages come again. Try: mem_storage: false")
	add(c.Durable == "", "is not durable: when no process is connected, messages are missed. Try: a durable consumer")
	add(c.DeliverPolicy != jetstream.DeliverAllPolicy, "begins behind the first message of the stream. Try: deliver_policy: all")
	return findings
}
