package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/outbox"
)

// destination is where a relay delivers messages to.
type destination struct {
	outbox.Publisher

	name string // without its password

	// ask returns what in the settings of the destination endangers the promises of the outbox for these
	// topics, one sentence for each finding. Nil: it has no settings to ask for.
	ask func(ctx context.Context, topics []string) ([]string, error)

	// askConsumers returns the same for the consumers of the broker that have one of these names, and how many it has
	// found. Nil: the broker keeps no settings of consumers.
	askConsumers func(ctx context.Context, names []string) (found int, findings []string, err error)

	close func()
}

const toUsage = "--to nats://HOST:4222, --to kafka://HOST:9092, or --to https://HOST/PATH"

// openDestination reads a URL. It does not wait for the destination to be reached: a relay does that.
func openDestination(to string) (*destination, error) {
	if to == "" {
		return nil, cli.Usage("--to is missing", toUsage)
	}
	if strings.HasPrefix(to, kafkaScheme) {
		return openKafka(to)
	}
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil, cli.Usage("--to is not the URL of a destination", toUsage) // it may have a password
	}
	switch u.Scheme {
	case "nats", "tls":
		return openNATS(to, cli.Redacted(u))
	case "http", "https":
		return openHTTP(to, cli.Redacted(u))
	}
	return nil, cli.Usage(fmt.Sprintf("--to: there is no destination %s://", u.Scheme), toUsage)
}

func openHTTP(to, name string) (*destination, error) {
	name = strings.ReplaceAll(name, "%7Btopic%7D", "{topic}")
	return &destination{Publisher: httpbroker.Publisher(to, httpbroker.Config{}), name: name, close: func() {}}, nil
}
