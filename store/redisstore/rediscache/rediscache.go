// Package rediscache keeps the results of operations in Redis 7 or Valkey, where all processes of a service
// find them. So a retry that reaches another process than its first attempt does not ask the database.
//
//	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{
//		Shared: rediscache.New(client, rediscache.Config{Prefix: "shop-prod:"}),
//	})
//
// Redis only answers whether an operation is done. Redis is not used for claims or locks. If the server is
// down, hangs, evicts keys or has lost all data, the engine looks operations up in the database, and no
// effect is lost or repeated: see docs/cache.md.
package rediscache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config configures a [Cache].
type Config struct {
	// Prefix is the beginning of each key. Prefix must name the database of the operations: if two databases
	// share a prefix, such as staging and production, each environment replays the results of the other
	// environment. Required.
	Prefix string
}

// Cache is a once.SharedCache.
type Cache struct {
	client redis.UniversalClient
	prefix string
}

// New returns a cache on client. The client may repeat commands by itself, because a repeated command of this
// cache has no further effect. New panics if cfg is invalid.
func New(client redis.UniversalClient, cfg Config) *Cache {
	if client == nil || cfg.Prefix == "" {
		panic(`rediscache: New: the client is nil or Config.Prefix is empty. Try: a Prefix that names the database, such as Config{Prefix: "shop-prod:"}`)
	}
	return &Cache{client, cfg.Prefix}
}

// Get implements once.SharedCache.
func (c *Cache) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := c.client.Get(ctx, c.prefix+key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return value, err //nolint:wrapcheck // the engine only counts it
}

// Add implements once.SharedCache.
func (c *Cache) Add(ctx context.Context, key string, value []byte, until time.Time) error {
	err := c.client.Do(ctx, "set", c.prefix+key, value, "nx", "pxat", until.UnixMilli()).Err()
	if errors.Is(err, redis.Nil) { // another process has added the key before: its value stays
		return nil
	}
	return err //nolint:wrapcheck // the engine only counts it
}

// Replace implements once.SharedCache.
func (c *Cache) Replace(ctx context.Context, key string, value []byte, until time.Time) error {
	return c.client.Do(ctx, "set", c.prefix+key, value, "pxat", until.UnixMilli()).Err() //nolint:wrapcheck // the engine wraps it
}
