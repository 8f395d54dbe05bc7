package redisbroker_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/message"
)

func Example() { //nolint:testableexamples // it needs a server
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	findings, err := redisbroker.Check(context.Background(), rdb, "refunds")
	fmt.Println(findings, err)

	// A relay does this: box.Relay(redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}), outbox.RelayConfig{}).Run(ctx).
	errs := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}).Publish(context.Background(), []message.Message{{
		ID: "0194b5e0-7f00-7000-8000-000000000001", Topic: "refunds", Key: "account-7", Seq: 1,
		Type: "refund.succeeded", Payload: []byte(`{"amount":700}`),
	}})
	fmt.Println(errs)
}
