// Package nats makes a NATS server with JetStream a destination of "once relay", and makes it possible that the doctor examines the server.
package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/cmd/once/internal/destination"
	"github.com/oncelib/once/operate/doctor"
)

// Open opens nats://HOST:4222, or tls:// of it.
func Open(to string) (*destination.Destination, error) {
	name, err := destination.NameOf(to)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(to, nats.Name("once relay"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		return nil, fmt.Errorf("--to %s: %w. Try: nats://HOST:4222", name, err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	reach := func(ctx context.Context) error {
		if err := conn.FlushWithContext(ctx); err != nil { // it waits until the connection is made
			return fmt.Errorf("the server cannot be reached: %w", cmp.Or(conn.LastError(), err))
		}
		return nil
	}
	return &destination.Destination{Publisher: natsbroker.Publisher(js), Broker: doctor.Broker{
		Name: name, Close: conn.Close,
		Check: func(ctx context.Context, topics []string) ([]string, error) {
			if err := reach(ctx); err != nil {
				return nil, err
			}
			return natsbroker.Check(ctx, js, topics...)
		},
		CheckConsumers: func(ctx context.Context, names []string) (int, []string, error) {
			if err := reach(ctx); err != nil {
				return 0, nil, err
			}
			return checkConsumers(ctx, js, names)
		},
	}}, nil
}

// checkConsumers looks for consumers with these names in every stream of the server.
func checkConsumers(ctx context.Context, js jetstream.JetStream, names []string) (found int, findings []string, err error) {
	streams := js.StreamNames(ctx)
	for stream := range streams.Name() {
		for _, name := range names {
			list, err := natsbroker.CheckConsumer(ctx, js, stream, name)
			if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrInvalidConsumerName) {
				continue
			}
			if err != nil {
				return found, findings, err
			}
			found++
			findings = append(findings, list...)
		}
	}
	return found, findings, streams.Err()
}
