package amqpbroker_test

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/oncelib/once/broker/amqpbroker"
	"github.com/oncelib/once/message"
)

func Example() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	conn, err := amqpbroker.Dial("amqp://guest:guest@localhost:5672/", amqp.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	if err := amqpbroker.Declare(ctx, conn, amqpbroker.Queue{Name: "refunds"}); err != nil {
		fmt.Println(err)
		return
	}
	findings, err := amqpbroker.Check(ctx, conn, "refunds")
	fmt.Println(findings, err)

	// A relay does this: box.Relay(amqpbroker.Publisher(conn, ""), outbox.RelayConfig{}).Run(ctx).
	errs := amqpbroker.Publisher(conn, "").Publish(ctx, []message.Message{{
		ID: "0194b5e0-7f00-7000-8000-000000000001", Topic: "refunds", Key: "account-7", Seq: 1,
		Type: "refund.succeeded", Payload: []byte(`{"amount":700}`),
	}})
	fmt.Println(errs)
}
