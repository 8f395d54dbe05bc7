// Package destination opens the destinations of relays, and the brokers that the doctor examines.
package destination

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/outbox"
)

// Destination is a destination of a relay.
type Destination struct {
	outbox.Publisher
	doctor.Broker
}

const toUsage = "--to nats://HOST:4222, --to redis://HOST:6379, --to kafka://HOST:9092, --to amqp://HOST:5672, or --to https://HOST/PATH"

// Opener opens the destination that a URL names.
type Opener func(to string) (*Destination, error)

// openers are the functions that open destinations, by the scheme of the URL.
var openers = map[string]Opener{
	"http": openHTTP, "https": openHTTP, "redis": openRedis, "rediss": openRedis,
	"nats": missing("NATS"), "tls": missing("NATS"), "kafka": missing("Kafka"), "amqp": missing("RabbitMQ"), "amqps": missing("RabbitMQ"),
}

// Register adds a kind of destination to this build, before any is opened.
func Register(scheme string, open Opener) { openers[scheme] = open }

// missing returns the opener of a destination that this build does not have. It always returns an error.
func missing(what string) Opener {
	return func(string) (*Destination, error) {
		return nil, cli.Usage("--to: this build of the command once has no "+what, cli.FullBuild)
	}
}

// Open opens the destination at a URL. It does not connect: the relay waits until the destination can be reached.
func Open(to string) (*Destination, error) {
	if to == "" {
		return nil, cli.Usage("--to is missing", toUsage)
	}
	scheme, _, _ := strings.Cut(to, "://")
	if open := openers[strings.ToLower(scheme)]; open != nil {
		return open(to)
	}
	if u, err := url.Parse(to); err == nil && u.Host != "" {
		return nil, cli.Usage(fmt.Sprintf("--to: the destination %s:// does not exist", u.Scheme), toUsage)
	}
	return nil, notURL()
}

// NameOf returns a URL for people, without its password.
func NameOf(to string) (string, error) {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return "", notURL()
	}
	return cli.Redacted(u), nil
}

// notURL does not repeat the value of the flag: it may contain a password.
func notURL() error { return cli.Usage("--to is not the URL of a destination", toUsage) }

func openHTTP(to string) (*Destination, error) {
	name, err := NameOf(to)
	if err != nil {
		return nil, err
	}
	name = strings.ReplaceAll(name, "%7Btopic%7D", "{topic}")
	return &Destination{httpbroker.Publisher(to, httpbroker.Config{}), doctor.Broker{Name: name, Close: func() {}}}, nil
}
