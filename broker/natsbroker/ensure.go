package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// EnsureStream creates a stream, if there is none with its name:
//
//	err := natsbroker.EnsureStream(ctx, js, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"refunds"}, Replicas: 3})
//
// It sets what the promise of an outbox needs and settings leaves out: a duplicate window of ten minutes, and that a full stream refuses new messages. Three replicas
// are the choice of the caller, because a server alone cannot have them. A stream that exists is not changed. It is an error if settings, or those of the stream that exists, endanger the
// promise, if it has fewer replicas than settings, or if subjects are missing. Programs that start together can all call it.
func EnsureStream(ctx context.Context, js jetstream.JetStream, settings jetstream.StreamConfig) error {
	if settings.Duplicates == 0 {
		settings.Duplicates = redelivery
	}
	settings.Discard = jetstream.DiscardNew
	if err := refuse(settings, max(1, settings.Replicas)); err != nil {
		return err
	}
	stream, err := js.Stream(ctx, settings.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, settings)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another program has been faster
		stream, err = js.Stream(ctx, settings.Name)
	}
	if err != nil {
		return fmt.Errorf("natsbroker: create stream %s: %w", settings.Name, err)
	}
	if err := refuse(stream.CachedInfo().Config, max(1, settings.Replicas)); err != nil {
		return err
	}
	for _, subject := range settings.Subjects {
		name, err := js.StreamNameBySubject(ctx, subject)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("natsbroker: look for the stream of %s: %w", subject, err)
		}
		if name != settings.Name {
			return fmt.Errorf("natsbroker: stream %s exists, without the subject %s. Try: nats stream edit %[1]s --subjects with all of them", settings.Name, subject)
		}
	}
	return nil
}

// refuse returns what in the settings of a stream endangers the promise, as one error. The number of replicas is the choice of the caller, and consumers may follow.
func refuse(c jetstream.StreamConfig, replicas int) error {
	if name := c.Name; name == "" || strings.ContainsAny(name, " \t\r\n.*>/\\") {
		return fmt.Errorf("natsbroker: %q cannot be the name of a stream. Try: letters, digits and hyphens", name)
	}
	if c.Replicas < replicas && c.Replicas > 0 {
		return fmt.Errorf("natsbroker: stream %s has %d replicas, and %d are asked for. Try: nats stream edit %[1]s --replicas=%[3]d", c.Name, c.Replicas, replicas)
	}
	c.Replicas, c.Retention = 2, jetstream.LimitsPolicy
	if findings := checkStream(&jetstream.StreamInfo{Config: c}); len(findings) > 0 {
		return fmt.Errorf("natsbroker: stream %s %s", c.Name, strings.Join(findings, "; it "))
	}
	return nil
}
