package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/redisstore"
	"github.com/oncelib/once/store/storetest"
)

// opened is a store of the suite, and its client.
type opened struct {
	*redisstore.Store

	rdb *redis.Client
}

func (o opened) Unwrap() any { return o.Store }

// age makes all that a server keeps older: the server's own clock stays.
const age = `
for _, key in ipairs(redis.call('KEYS', '*')) do
	if redis.call('TYPE', key).ok == 'hash' then
		for _, field in ipairs({'since', 'lease', 'until'}) do
			local at = redis.call('HGET', key, field)
			if at then redis.call('HSET', key, field, string.format('%.0f', at - ARGV[1])) end
		end
		local expires = redis.call('PEXPIRETIME', key)
		if expires > 0 then redis.call('PEXPIREAT', key, string.format('%.0f', expires - ARGV[1] / 1000)) end
	end
end`

// harnessOf is that of stores on a server, each with an empty database of it.
func harnessOf(server *testenv.Redis, cfg redisstore.Config) storetest.OperationsHarness {
	opens := 0
	return storetest.OperationsHarness{
		Open: func(tb testing.TB) store.Operations {
			tb.Helper()
			opens++
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DB: opens, MaxRetries: -1, ReadTimeout: patience})
			tb.Cleanup(func() { _ = rdb.Close() })
			return opened{redisstore.New(rdb, cfg), rdb}
		},
		Peer: func(tb testing.TB, s store.Operations) store.Operations {
			tb.Helper()
			options := *s.(opened).rdb.Options()
			rdb := redis.NewClient(&redis.Options{Addr: options.Addr, DB: options.DB, MaxRetries: -1, ReadTimeout: patience})
			tb.Cleanup(func() { _ = rdb.Close() })
			return opened{redisstore.New(rdb, cfg), rdb}
		},
		Advance: func(tb testing.TB, s store.Operations, d time.Duration) {
			tb.Helper()
			if err := s.(opened).rdb.Eval(tb.Context(), age, nil, d.Microseconds()).Err(); err != nil && !errors.Is(err, redis.Nil) {
				tb.Fatal(err)
			}
		},
		OneRecord: true, Expires: true,
	}
}

// TestConformance: a store on Redis passes the suite for stores without transactions.
func TestConformance(t *testing.T) {
	storetest.RunOperations(t, harnessOf(start(t, durable), volatile))
}

// TestConformanceWithReplicas: the same when each record is confirmed by a replica.
func TestConformanceWithReplicas(t *testing.T) {
	testenv.Prove(t)
	server := start(t, durable)
	startReplica(t, server.Port(), false)
	storetest.RunOperations(t, harnessOf(server, redisstore.Config{VolatileRecord: true, Replicas: 1}))
}

// TestConformanceOnValkey: the same on Valkey.
func TestConformanceOnValkey(t *testing.T) {
	testenv.Need(t, "valkey-server")
	storetest.RunOperations(t, harnessOf(startOf(t, testenv.RedisConfig{Lines: durable, Valkey: true}), volatile))
}
