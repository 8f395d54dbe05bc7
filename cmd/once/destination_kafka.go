package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	kafkabroker "github.com/oncelib/once/broker/kafka"
)

const kafkaScheme = "kafka://"

// openKafka reads the addresses of one or more brokers, separated by commas.
func openKafka(to string) (*destination, error) {
	brokers := strings.TrimSuffix(strings.TrimPrefix(to, kafkaScheme), "/")
	if brokers == "" || strings.ContainsAny(brokers, "/@?#") { // which may be a password
		return nil, &usageError{"--to: kafka:// is followed by addresses and by nothing else", "--to kafka://HOST:9092,HOST:9092"}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		return nil, fmt.Errorf("--to %s: %w. Try: --to kafka://HOST:9092,HOST:9092", to, err)
	}
	return &destination{
		Publisher: kafkabroker.Publisher(client), name: kafkaScheme + brokers, close: client.Close,
		ask: func(ctx context.Context, topics []string) ([]string, error) {
			return kafkabroker.Check(ctx, client, topics...)
		},
	}, nil
}
