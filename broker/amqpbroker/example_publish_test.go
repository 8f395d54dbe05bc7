package amqpbroker_test

import (
	"context"
	"database/sql"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

func ExamplePublisher() { //nolint:testableexamples // it needs a server
	service := func(ctx context.Context, s *sqlstore.Store, url string, serve func(*once.Engine[*sql.Tx], *outbox.Box[*sql.Tx])) error {
		conn, err := amqpbroker.Dial(url, amqp.Config{}) // does not connect; amqp is github.com/rabbitmq/amqp091-go
		if err != nil {
			return err
		}
		box := outbox.New(s, outbox.Config{Source: "/orders"})
		relay := box.Relay(amqpbroker.Publisher(conn, ""), outbox.RelayConfig{})
		engine := once.New(s, once.Config{AfterCommit: relay.Wake}) // a commit wakes the relay
		go serve(engine, box)
		return relay.Run(ctx)
	}
	_ = service
}
