// Package destination is where relays deliver to, and what the doctor asks there.
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

// Destination is where a relay delivers messages to.
type Destination struct {
	outbox.Publisher
	doctor.Broker
}

const toUsage = "--to nats://HOST:4222, --to kafka://HOST:9092, or --to https://HOST/PATH"

// Open reads a URL. It does not wait for the destination to be reached: a relay does that.
func Open(to string) (*Destination, error) {
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

func openHTTP(to, name string) (*Destination, error) {
	name = strings.ReplaceAll(name, "%7Btopic%7D", "{topic}")
	return &Destination{httpbroker.Publisher(to, httpbroker.Config{}), doctor.Broker{Name: name, Close: func() {}}}, nil
}
