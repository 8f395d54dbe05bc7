package kafkabroker_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/message"
)

func Example() { //nolint:testableexamples // it needs a server
	client, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), kgo.DisableIdempotentWrite())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	findings, err := kafkabroker.Check(context.Background(), client, "refunds")
	fmt.Println(findings, err)

	// A relay does this: box.Relay(kafkabroker.Publisher(client), outbox.RelayConfig{}).Run(ctx).
	errs := kafkabroker.Publisher(client).Publish(context.Background(), []message.Message{{
		ID: "0194b5e0-7f00-7000-8000-000000000001", Topic: "refunds", Key: "account-7", Seq: 1,
		Type: "refund.succeeded", Payload: []byte(`{"amount":700}`),
	}})
	fmt.Println(errs)
}
