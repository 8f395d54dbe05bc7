package outbox

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/outbox/outboxtest"
)

// redisStreams is a Redis server that can be killed, as the destination of relays.
type redisStreams struct {
	*testenv.Redis

	kills int
}

func newRedisStreams(t *testing.T, p *relayPlan) *redisStreams {
	t.Helper()
	testenv.Need(t, "redis-server")
	server, err := testenv.StartRedis(t.Context(), testenv.RedisConfig{Lines: "appendonly yes\nappendfsync always\n"})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	p.URL = server.Addr()
	return &redisStreams{Redis: server}
}

// redisPublisher is the publisher of a relay process.
func redisPublisher(address string) (outbox.Publisher, func(), error) {
	redis.SetLogger(silent{}) // it tells standard error of each server that is down
	rdb := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1})
	return redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}), func() { _ = rdb.Close() }, nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// disturb kills the server, but not all the time.
func (r *redisStreams) disturb(t *testing.T) {
	t.Helper()
	if r.kills < 4 {
		r.kills++
		must(t, r.Kill())
		must(t, r.Restart(context.WithoutCancel(t.Context())))
	}
}

func (r *redisStreams) setCalm() {}

func (r *redisStreams) met() (int, string) {
	return r.kills, fmt.Sprintf("%d kills of redis-server", r.kills)
}

// arrived returns all that the streams hold, each in its order.
func (r *redisStreams) arrived(t *testing.T) (list []message.Message) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr()})
	defer func() { _ = rdb.Close() }()
	for _, topic := range []string{"refunds", "mails", "audit"} {
		entries, err := rdb.XRange(t.Context(), topic, "-", "+").Result()
		must(t, err)
		for _, entry := range entries {
			m, err := outboxtest.Message(topic, "ce_", false, func(yield func(name, value string) bool) {
				for name, value := range entry.Values {
					if text, is := value.(string); is && name != "ce_data" && !yield(name, text) {
						return
					}
				}
			}, nil)
			must(t, err)
			if data, is := entry.Values["ce_data"].(string); is {
				m.Payload = []byte(data)
			}
			list = append(list, m)
		}
	}
	return list
}
