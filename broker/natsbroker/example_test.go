package natsbroker_test

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncelib/once/broker/natsbroker"
	"github.com/oncelib/once/message"
)

func Example() { //nolint:testableexamples // it needs a server
	nc, err := nats.Connect("nats://localhost:4222", nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	findings, err := natsbroker.Check(context.Background(), js, "refunds")
	fmt.Println(findings, err)

	// A relay does this: box.Relay(natsbroker.Publisher(js), outbox.RelayConfig{}).Run(ctx).
	errs := natsbroker.Publisher(js).Publish(context.Background(), []message.Message{{
		ID: "0194b5e0-7f00-7000-8000-000000000001", Topic: "refunds", Key: "account-7", Seq: 1,
		Type: "refund.succeeded", Payload: []byte(`{"amount":700}`),
	}})
	fmt.Println(errs)
}
