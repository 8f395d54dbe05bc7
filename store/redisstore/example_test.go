package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/redisstore"
)

// TestMailOfTheDocs is the code of docs/redis.md.
func TestMailOfTheDocs(t *testing.T) {
	addr, ctx, op := start(t, durable).Addr(), t.Context(), operation("user-42")
	send := func(_ context.Context, key string) (string, error) { return "sent " + key, nil }
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	mail := once.New(lease.New(redisstore.New(rdb, redisstore.Config{VolatileRecord: true}), lease.Config{}), once.Config{})
	r, err := once.Do(ctx, mail, op, func(ctx context.Context, run *lease.Run) (string, error) {
		return lease.Call(ctx, run, "send", send, lease.CallPolicy{DedupedFor: 24 * time.Hour})
	})
	if err != nil || r.Value == "" || r.Replayed {
		t.Error(r, err)
	}
}
