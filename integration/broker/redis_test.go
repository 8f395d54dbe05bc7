package broker

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
)

// durable are the lines of a server that keeps what it has confirmed when it is killed.
const durable = "appendonly yes\nappendfsync always\n"

func realRedis(t *testing.T, config testenv.RedisConfig) (*testenv.Redis, *redis.Client) {
	t.Helper()
	program := "redis-server"
	if config.Valkey {
		program = "valkey-server"
	}
	testenv.Need(t, program)
	server, err := testenv.StartRedis(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return server, clientOf(t, server)
}

// clientOf returns a client of a server that ends with the test.
func clientOf(t *testing.T, server *testenv.Redis) *redis.Client {
	t.Helper()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return redisClient(t, server.Addr())
}

func redisClient(t *testing.T, address string, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	redis.SetLogger(silent{}) // it tells standard error of each server that is down
	options := &redis.Options{Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1, ReadTimeout: time.Minute}
	for _, c := range change {
		c(options)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// entries returns a function that reads what has come to streams since the last call.
func entries(rdb *redis.Client, streams ...string) func(t *testing.T) []message.Message {
	last := map[string]string{}
	return func(t *testing.T) (list []message.Message) {
		t.Helper()
		for _, stream := range streams {
			for {
				from := "-"
				if last[stream] != "" {
					from = "(" + last[stream]
				}
				read, err := rdb.XRangeN(t.Context(), stream, from, "+", 1000).Result()
				if err != nil {
					t.Fatal(err)
				}
				if len(read) == 0 {
					break
				}
				for _, entry := range read {
					last[stream] = entry.ID
					m, err := outboxtest.Message(stream, "ce_", false, func(yield func(name, value string) bool) {
						for name, value := range entry.Values {
							if text, is := value.(string); is && name != "ce_data" && !yield(name, text) {
								return
							}
						}
					}, []byte(entry.Values["ce_data"].(string)))
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, m)
				}
			}
		}
		return list
	}
}

// TestPublisherOnRedis: a server that is killed and started again.
func TestPublisherOnRedis(t *testing.T) {
	t.Run("Redis", func(t *testing.T) { testRedis(t, false) })
	t.Run("Valkey", func(t *testing.T) { testRedis(t, true) })
}

func testRedis(t *testing.T, valkey bool) {
	server, rdb := realRedis(t, testenv.RedisConfig{Lines: durable, Valkey: valkey})
	topics := []string{"refunds", "payouts:eu now"}
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}), Topics: topics, Received: entries(rdb, topics...),
		Break: func(t *testing.T) func() {
			t.Helper()
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		},
	})
}

// TestRedisIsKilledWhilePublishing: each message is published until it is confirmed, while the server is killed again and again. All arrive, those of a key in
// order behind a consumer that drops what it has seen.
func TestRedisIsKilledWhilePublishing(t *testing.T) {
	testenv.Prove(t)
	server, rdb := realRedis(t, testenv.RedisConfig{Lines: durable})
	received := entries(rdb, "refunds")
	p := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{})
	keys, each, kills := 40, 100, 6
	if os.Getenv("ONCE_TORTURE") == "long" {
		each = 2500 // a backlog of 100,000
	}
	confirmed := make(chan struct{}, keys*each)
	killed := make(chan error, 1)
	go func() {
		defer close(killed)
		for range kills {
			for range keys * each / (kills + 1) {
				<-confirmed
			}
			if err := server.Kill(); err != nil {
				killed <- err
				return
			}
			if err := server.Restart(context.Background()); err != nil {
				killed <- err
				return
			}
		}
	}()
	var waiting []message.Message
	for i := range keys * each {
		waiting = append(waiting, message.Message{
			Topic: "refunds", Key: fmt.Sprint("key ", i%keys), Seq: int64(i/keys) + 1, ID: fmt.Sprint("id", i), Type: "test", Source: "test",
		})
	}
	calls := 0
	for len(waiting) > 0 {
		calls++
		batch := waiting[:min(len(waiting), 1000)]
		errs := p.Publish(t.Context(), batch)
		var failed []message.Message
		for i, m := range batch {
			switch {
			case errs == nil || errs[i] == nil:
				confirmed <- struct{}{}
			case !outbox.IsUnavailable(errs[i]):
				t.Fatalf("message %s: %v", m.ID, errs[i])
			default:
				failed = append(failed, m)
			}
		}
		waiting = append(failed, waiting[len(batch):]...)
		if failed != nil {
			<-time.After(5 * time.Millisecond)
		}
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	deliveries, duplicates := 0, 0
	for _, m := range received(t) {
		deliveries++
		switch {
		case m.Seq <= last[m.Key]:
			duplicates++
		case m.Seq != last[m.Key]+1:
			t.Errorf("%s: number %d after %d", m.Key, m.Seq, last[m.Key])
			fallthrough
		default:
			last[m.Key] = m.Seq
		}
	}
	for i := range keys {
		if key := fmt.Sprint("key ", i); last[key] != int64(each) {
			t.Errorf("%s ends with %d", key, last[key])
		}
	}
	testenv.Reportf(t, "%d messages, %d kills of redis-server: %d calls of Publish, %d deliveries, %d duplicates", keys*each, kills, calls, deliveries, duplicates)
}

// TestRedisRefusals: what a server answers says nothing about the message, and its topic waits. Other topics go on, and nothing has arrived that was not confirmed.
func TestRedisRefusals(t *testing.T) {
	server, rdb := realRedis(t, testenv.RedisConfig{Lines: durable})
	ctx := t.Context()
	do := func(args ...any) func() {
		return func() {
			t.Helper()
			if err := rdb.Do(ctx, args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	nothing := func() {}
	elsewhere, _ := realRedis(t, testenv.RedisConfig{Lines: fmt.Sprintf("replicaof 127.0.0.1 %d\n", server.Port())})
	cluster, _, _ := clusterNode(t)
	do("acl", "setuser", "reader", "on", ">secret", "~*", "+@read", "+@connection")()
	for _, c := range []struct {
		name          string
		rdb           *redis.Client
		before, after func()
		topic         string
		want          string
	}{
		{"out of memory", rdb, do("config", "set", "maxmemory", "1"), do("config", "set", "maxmemory", "0"), "refunds", "Try: a larger maxmemory"},
		{"too few replicas", rdb, do("config", "set", "min-replicas-to-write", "3"), do("config", "set", "min-replicas-to-write", "0"), "refunds", "Try: check that the replicas"},
		{"a replica", redisClient(t, elsewhere.Addr()), nothing, nothing, "refunds", "Try: the address of the primary"},
		{"no slots", redisClient(t, cluster.Addr()), nothing, nothing, "refunds", "CLUSTERDOWN"},
		{"no stream", rdb, do("set", "cache", "1"), do("del", "cache"), "cache", "Try: another name for the topic"},
		{"no right", redisClient(t, server.Addr(), func(o *redis.Options) { o.Username, o.Password = "reader", "secret" }), nothing, nothing, "refunds", "Try: a Redis user that is allowed to write"},
		{"password", redisClient(t, server.Addr(), func(o *redis.Options) { o.Username, o.Password = "reader", "wrong" }), nothing, nothing, "refunds", "Try: another user or password"},
		{"no server", redisClient(t, "127.0.0.1:1"), nothing, nothing, "refunds", "refused"},
	} {
		c.before()
		errs := redisbroker.Publisher(c.rdb, redisbroker.PublisherConfig{}).Publish(ctx, []message.Message{{Topic: c.topic, ID: c.name}})
		c.after()
		if errs == nil || !outbox.IsUnavailable(errs[0]) || outbox.IsClosed(errs[0]) || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, errs, c.want)
		}
	}
	if n := rdb.XLen(ctx, "refunds").Val(); n != 0 {
		t.Errorf("%d messages have arrived", n)
	}
	if errs := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}).Publish(ctx, []message.Message{{Topic: "refunds", ID: "good"}}); errs != nil {
		t.Error(errs)
	}
	closed := redisClient(t, server.Addr())
	_ = closed.Close()
	if errs := redisbroker.Publisher(closed, redisbroker.PublisherConfig{}).Publish(ctx, []message.Message{{Topic: "refunds", ID: "1"}}); errs == nil || !outbox.IsClosed(errs[0]) || !strings.Contains(errs[0].Error(), "Try: ") {
		t.Errorf("a closed client: %v", errs)
	}
}

// clusterNode starts a server of a cluster, which has no slots yet and knows no others. They talk over bus.
func clusterNode(t *testing.T) (server *testenv.Redis, rdb *redis.Client, bus int) {
	t.Helper()
	testenv.Need(t, "redis-server")
	for tries := 1; ; tries++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		bus = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		server, err = testenv.StartRedis(t.Context(), testenv.RedisConfig{Lines: fmt.Sprintf("cluster-enabled yes\ncluster-require-full-coverage no\ncluster-port %d\n", bus)})
		switch {
		case err == nil:
			return server, clientOf(t, server), bus
		case tries == 5 || !strings.Contains(err.Error(), "Address already in use"): // otherwise another process has taken the port
			t.Fatal(err)
		}
	}
}

// TestRedisMoved: a server of a cluster that does not have the stream.
func TestRedisMoved(t *testing.T) {
	_, rdb, _ := clusterNode(t)
	other, second, bus := clusterNode(t)
	ctx := t.Context()
	for _, err := range []error{
		rdb.ClusterAddSlotsRange(ctx, 0, 1).Err(), second.ClusterAddSlotsRange(ctx, 2, 16383).Err(),
		rdb.Do(ctx, "cluster", "meet", "127.0.0.1", other.Port(), bus).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{})
	for { // until the servers know each other, the answer is CLUSTERDOWN
		errs := p.Publish(ctx, []message.Message{{Topic: "refunds", ID: "1"}})
		if errs == nil || !outbox.IsUnavailable(errs[0]) {
			t.Fatal(errs)
		}
		if strings.Contains(errs[0].Error(), "MOVED") {
			if !strings.Contains(errs[0].Error(), "Try: the address of a Redis server that is not in cluster mode") {
				t.Error(errs)
			}
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestRedisReplicas: a message counts as delivered when as many replicas have it as were asked for.
func TestRedisReplicas(t *testing.T) {
	primary, rdb := realRedis(t, testenv.RedisConfig{Lines: durable})
	p := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{Replicas: 1})
	one := []message.Message{{Topic: "refunds", ID: "1"}}
	if errs := p.Publish(t.Context(), one); errs == nil || !outbox.IsUnavailable(errs[0]) || !strings.Contains(errs[0].Error(), "Try: ") {
		t.Errorf("without a replica: %v", errs)
	}
	_, replica := realRedis(t, testenv.RedisConfig{Lines: fmt.Sprintf("replicaof 127.0.0.1 %d\n", primary.Port())})
	for p.Publish(t.Context(), one) != nil { // it is not connected yet
		<-time.After(20 * time.Millisecond)
	}
	had := replica.XLen(t.Context(), "refunds").Val()
	if errs := p.Publish(t.Context(), one); errs != nil {
		t.Fatal(errs)
	}
	if now := replica.XLen(t.Context(), "refunds").Val(); now != had+1 {
		t.Errorf("the replica has %d messages, %d before", now, had)
	}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "ReadTimeout") {
			t.Errorf("a client that reads too short: %s", said)
		}
	}()
	redisbroker.Publisher(redisClient(t, primary.Addr(), func(o *redis.Options) { o.ReadTimeout = time.Second }), redisbroker.PublisherConfig{Replicas: 1})
}

// TestRedisMaxLen: a stream is trimmed only if that is asked for.
func TestRedisMaxLen(t *testing.T) {
	_, rdb := realRedis(t, testenv.RedisConfig{})
	var messages []message.Message
	for i := range 1000 {
		messages = append(messages, message.Message{Topic: "refunds", ID: fmt.Sprint(i)})
	}
	for _, c := range []struct {
		most, from, to int64
	}{{0, 1000, 1000}, {300, 300, 400}} {
		if errs := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{MaxLen: c.most}).Publish(t.Context(), messages); errs != nil {
			t.Fatal(errs)
		}
		if n := rdb.XLen(t.Context(), "refunds").Val(); n < c.from || n > c.to {
			t.Errorf("MaxLen %d: %d messages", c.most, n)
		}
	}
}

// TestRedisCheck: each setting that endangers the promise is found.
func TestRedisCheck(t *testing.T) {
	good, rdb := realRedis(t, testenv.RedisConfig{Lines: durable})
	_, replica := realRedis(t, testenv.RedisConfig{Lines: fmt.Sprintf("replicaof 127.0.0.1 %d\n", good.Port())})
	_, bad := realRedis(t, testenv.RedisConfig{Lines: "maxmemory-policy volatile-lru\n"})
	_, later := realRedis(t, testenv.RedisConfig{Lines: "appendonly yes\n"})
	ctx := t.Context()
	for info := ""; !strings.Contains(info, "connected_slaves:1"); {
		var err error
		if info, err = rdb.Info(ctx, "replication").Result(); err != nil {
			t.Fatal(err)
		}
	}
	if err := redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}).Publish(ctx, []message.Message{{Topic: "refunds"}, {Topic: "expires"}}); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{rdb.Expire(ctx, "expires", time.Hour).Err(), rdb.Set(ctx, "cache", "1", 0).Err()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		rdb    *redis.Client
		topics []string
		want   []string
	}{
		{"good", rdb, []string{"refunds", "tomorrow"}, nil},
		{"streams", rdb, []string{"refunds", "cache", "expires"}, []string{"The Redis key cache is a string", "Redis deletes stream expires with all its messages in"}},
		{"bad", bad, nil, []string{"has no replica", "may delete keys when its memory is full (maxmemory-policy volatile-lru)", "writes no append-only file"}},
		{"everysec", later, nil, []string{"has no replica", "appendfsync everysec"}},
		{"a replica", replica, nil, []string{"is a replica", "writes no append-only file"}},
		{"retries", redisClient(t, good.Addr(), func(o *redis.Options) { o.MaxRetries = 0 }), nil, []string{"sends a message again by itself"}},
	} {
		findings, err := redisbroker.Check(ctx, c.rdb, c.topics...)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(c.want)
		for _, finding := range findings {
			at := slices.IndexFunc(want, func(w string) bool { return strings.Contains(finding, w) })
			if at < 0 || !strings.Contains(finding, "Try: ") {
				t.Errorf("%s: %s", c.name, finding)
				continue
			}
			want = slices.Delete(want, at, at+1)
		}
		if len(want) > 0 {
			t.Errorf("%s: not found: %q", c.name, want)
		}
	}
	if _, err := redisbroker.Check(ctx, redisClient(t, "127.0.0.1:1")); err == nil {
		t.Error("a server that is down is not told")
	}
}
