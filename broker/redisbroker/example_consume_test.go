package redisbroker_test

import (
	"context"
	"database/sql"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlstore"
)

func ExampleConsume() { //nolint:testableexamples // it needs a server
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := sqlstore.Open("pgx", "postgres://localhost/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	in := inbox.New(once.New(store, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder})
	book := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into ledger (refund) values ($1)", m.Payload)
		return err
	}
	// It returns after SIGTERM, when the handlers that run have returned.
	err = redisbroker.Consume(ctx, rdb, in, book, redisbroker.ConsumerConfig{Streams: []string{"refunds"}, Keep: 7 * 24 * time.Hour})
	fmt.Println(err)
}
