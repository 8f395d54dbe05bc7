package rediscache_test

import (
	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/redisstore/rediscache"
)

// A retry that comes to another process than its first attempt does not ask the database.
func Example() { //nolint:testableexamples // it needs a server
	s := memstore.New() // or that of your database
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1, DialerRetries: 1})
	encrypter, err := once.NewEncrypter([]byte("16 secret bytes!"))
	if err != nil {
		return
	}
	engine := once.New(s, once.Config{
		Cache:     64 << 20,
		Shared:    rediscache.New(client, rediscache.Config{Prefix: "shop-prod:"}),
		Encrypter: encrypter,
	})
	_ = engine // once.Do(ctx, engine, op, fn)
}
