package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestDuplicateRefundIsBookedOnce: a refund that is in the stream twice is booked once.
func TestDuplicateRefundIsBookedOnce(t *testing.T) {
	testenv.Need(t, "redis-server")
	server, err := testenv.StartRedis(t.Context(), testenv.RedisConfig{Lines: "appendonly yes\n"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	refund := message.Message{ID: "e1", Source: "payments", Topic: "refunds", Key: "acct_1", Seq: 1, Type: "refund.succeeded", Payload: []byte(`{"account":"acct_1","amount":1000}`)}
	for range 2 {
		if errs := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}).Publish(t.Context(), []message.Message{refund}); errs != nil {
			t.Fatal(errs)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	dsn := "file:" + filepath.Join(t.TempDir(), "billing.db")
	go func() { ended <- run(ctx, dsn, server.Addr()) }()
	for {
		groups, _ := rdb.XInfoGroups(t.Context(), "refunds").Result()
		if len(groups) == 1 && groups[0].Lag == 0 && groups[0].Pending == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	db, _, err := open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var count, sum int
	if err := db.QueryRowContext(t.Context(), "select count(*), sum(amount) from booking").Scan(&count, &sum); err != nil || count != 1 || sum != 1000 {
		t.Errorf("%d bookings, %d in all, %v", count, sum, err)
	}
}
