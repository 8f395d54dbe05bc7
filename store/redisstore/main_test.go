package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/redisstore"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // it tells standard error of each server that is down
	testenv.Main(m)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// durable are the lines of a server that keeps what Redis can keep.
const durable = "appendonly yes\nappendfsync always\n"

// start starts a server of this test.
func start(tb testing.TB, lines string) *testenv.Redis {
	tb.Helper()
	testenv.Need(tb, "redis-server")
	return startOf(tb, testenv.RedisConfig{Lines: lines})
}

func startOf(tb testing.TB, config testenv.RedisConfig) *testenv.Redis {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	server, err := testenv.StartRedis(ctx, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server
}

// startReplica starts one of a server, and returns when it follows.
func startReplica(tb testing.TB, port int, valkey bool) *testenv.Redis {
	tb.Helper()
	replica := startOf(tb, testenv.RedisConfig{Lines: durable + fmt.Sprintf("replicaof 127.0.0.1 %d\n", port), Valkey: valkey})
	rdb := clientOf(tb, replica.Addr())
	until(tb, func() bool { return field(tb, rdb, "master_link_status") == "up" })
	return replica
}

// patience is how long a client waits for an answer. A server whose disk is busy is not down.
const patience = time.Minute

// clientOf returns a client that sends each command once.
func clientOf(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1, ReadTimeout: patience})
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

var volatile = redisstore.Config{VolatileRecord: true}

func open(tb testing.TB, addr string) *redisstore.Store {
	tb.Helper()
	return redisstore.New(clientOf(tb, addr), volatile)
}

// field returns what INFO says.
func field(tb testing.TB, rdb *redis.Client, name string) string {
	tb.Helper()
	info, err := rdb.InfoMap(tb.Context()).Result()
	if err != nil {
		tb.Fatal(err)
	}
	for _, section := range info {
		if value, is := section[name]; is {
			return value
		}
	}
	return ""
}

// until waits for what a server does not tell by itself.
func until(tb testing.TB, is func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // there is no signal
		if time.Now().After(deadline) {
			tb.Fatal("it does not happen")
		}
	}
}
