package watermillbroker_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/watermillbroker"
	"github.com/oncelib/once/inbox"
	oncemessage "github.com/oncelib/once/message"
)

func Example() {
	channel := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 1}, nil)
	defer func() { _ = channel.Close() }()
	arriving, err := channel.Subscribe(context.Background(), "refunds")
	if err != nil {
		fmt.Println(err)
		return
	}

	// A relay does this: box.Relay(watermillbroker.Publisher(channel), outbox.RelayConfig{}).Run(ctx).
	errs := watermillbroker.Publisher(channel).Publish(context.Background(), []oncemessage.Message{{
		ID: "0194b5e0-7f00-7000-8000-000000000001", Topic: "refunds", Key: "account-7", Seq: 1,
		Type: "refund.succeeded", Payload: []byte(`{"amount":700}`),
	}})
	fmt.Println(errs)

	m := <-arriving
	m.Ack()
	fmt.Println(m.Metadata.Get("ce_type"), m.Metadata.Get("ce_partitionkey"), string(m.Payload))
	// Output:
	// []
	// refund.succeeded account-7 {"amount":700}
}

var (
	engine     *once.Engine[*sql.Tx]
	subscriber message.Subscriber
)

func ExampleHandler() { //nolint:testableexamples // it needs a database: integration/push has one that runs
	in := inbox.New(engine, inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	book := func(ctx context.Context, tx *sql.Tx, m oncemessage.Message) error {
		_, err := tx.ExecContext(ctx, "insert into booking (account, refund) values (?, ?)", m.Key, m.Payload)
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		fmt.Println(err)
		return
	}
	router.AddConsumerHandler("billing", "refunds", subscriber, watermillbroker.Handler(in, book))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = in.Run(ctx, book) }() // what no delivery does: parked messages, redriven dead letters, expired rows
	fmt.Println(router.Run(ctx))
}

func ExampleMiddleware() { //nolint:testableexamples // as ExampleHandler
	in := inbox.New(engine, inbox.Config{Consumer: "billing"})
	var book message.HandlerFunc = func(m *message.Message) ([]*message.Message, error) {
		tx := watermillbroker.Tx[*sql.Tx](m.Context())
		_, err := tx.ExecContext(m.Context(), "insert into booking (account, refund) values (?, ?)", m.Metadata.Get("ce_partitionkey"), []byte(m.Payload))
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		fmt.Println(err)
		return
	}
	router.AddHandler("billing", "refunds", subscriber, "", nil, book).AddMiddleware(watermillbroker.Middleware(in))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = in.Run(ctx, watermillbroker.Apply[*sql.Tx](book)) }()
	fmt.Println(router.Run(ctx))
}
