package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// EnsureStream creates a stream if no stream with the name settings.Name exists:
//
//	err := natsbroker.EnsureStream(ctx, js, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"refunds"}, Replicas: 3})
//
// EnsureStream sets the defaults that an outbox needs to keep its promises: the duplicate window is ten minutes, and a full stream refuses new
// messages. EnsureStream does not set Replicas: set three replicas if the server is a cluster. EnsureStream does not change an existing stream.
// EnsureStream returns an error if the parameter settings, or the settings of an existing stream, endanger the promises of an outbox. EnsureStream
// also returns an error if an existing stream has fewer replicas than settings.Replicas, or does not have all subjects in settings.Subjects. Several
// programs can call EnsureStream at the same time.
func EnsureStream(ctx context.Context, js jetstream.JetStream, settings jetstream.StreamConfig) error {
	if settings.Duplicates == 0 {
		settings.Duplicates = redelivery
	}
	// A full stream must refuse messages, because a deleted message would never reach its consumers.
	settings.Discard = jetstream.DiscardNew
	if err := refuse(settings, max(1, settings.Replicas)); err != nil {
		return err
	}
	stream, err := js.Stream(ctx, settings.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, settings)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another program has created the stream meanwhile
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
			return fmt.Errorf("natsbroker: look up the stream of subject %s: %w", subject, err)
		}
		if name != settings.Name {
			return fmt.Errorf("natsbroker: stream %s exists, but does not have the subject %s. Try: nats stream edit %[1]s --subjects, with all subjects that the stream shall have", settings.Name, subject)
		}
	}
	return nil
}

// refuse returns the settings of a stream that endanger the promise, as one error. It ignores the number of replicas, which the
// caller chooses.
func refuse(c jetstream.StreamConfig, replicas int) error {
	if name := c.Name; name == "" || strings.ContainsAny(name, " \t\r\n.*>/\\") {
		return fmt.Errorf("natsbroker: %q cannot be the name of a stream. Try: letters, digits and hyphens", name)
	}
	if c.Replicas < replicas && c.Replicas > 0 {
		return fmt.Errorf("natsbroker: stream %s has %d replicas, but this program requires %d. Try: nats stream edit %[1]s --replicas=%[3]d", c.Name, c.Replicas, replicas)
	}
	// These two settings are the choice of the caller, so the check gets values that it accepts.
	c.Replicas, c.Retention = 2, jetstream.LimitsPolicy
	if findings := checkStream(&jetstream.StreamInfo{Config: c}); len(findings) > 0 {
		return fmt.Errorf("natsbroker: stream %s %s", c.Name, strings.Join(findings, "; it "))
	}
	return nil
}
