// Package rabbitmq makes RabbitMQ a destination of relays, and makes it possible that the doctor examines RabbitMQ.
package rabbitmq

import (
	"context"
	"net/url"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/destination"
	"github.com/oncelib/once/operate/doctor"
)

const usage = "--to 'amqp://USER:PASSWORD@HOST:5672/VHOST?exchange=NAME', where only the host is required; amqps:// for TLS" //nolint:gosec // words, and no password

// Open reads the URL of a server. Without an exchange the topics are names of queues.
func Open(to string) (*destination.Destination, error) {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" { // the error does not show the URL, which may have a password
		return nil, cli.Usage("--to is not a valid URL of RabbitMQ", usage)
	}
	query := u.Query()
	exchange := query.Get("exchange")
	name := cli.Redacted(u)
	query.Del("exchange")
	u.RawQuery = query.Encode()
	conn, err := amqpbroker.Dial(u.String(), amqp.Config{})
	if err != nil {
		return nil, cli.Usage("--to is not a valid URL of RabbitMQ", usage)
	}
	return &destination.Destination{Publisher: amqpbroker.Publisher(conn, exchange), Broker: doctor.Broker{
		Name: name, Close: func() { _ = conn.Close() },
		Check: func(ctx context.Context, topics []string) ([]string, error) {
			if exchange != "" {
				return amqpbroker.CheckExchange(ctx, conn, exchange)
			}
			return amqpbroker.Check(ctx, conn, topics...)
		},
	}}, nil
}
