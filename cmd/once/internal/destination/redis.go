package destination

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/broker/redisbroker"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate/doctor"
)

func openRedis(to string) (*Destination, error) {
	name, err := NameOf(to)
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(to)
	if err != nil { // the error does not show the URL, which may have a password
		return nil, cli.Usage("--to is not a URL of Redis", "--to redis://USER:PASSWORD@HOST:6379, or rediss:// with TLS")
	}
	redis.SetLogger(silent{}) // it would print on standard error what the relay logs anyway
	options.MaxRetries, options.ContextTimeoutEnabled, options.DialerRetries, options.ClientName = -1, true, 1, "once-relay"
	rdb := redis.NewClient(options)
	reach := func(ctx context.Context) error {
		if err := rdb.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("the server cannot be reached: %w", err)
		}
		return nil
	}
	return &Destination{redisbroker.Publisher(rdb, redisbroker.PublisherConfig{}), doctor.Broker{
		Name: name, Close: func() { _ = rdb.Close() }, // an error does not matter, because no request is running
		Check: func(ctx context.Context, topics []string) ([]string, error) {
			if err := reach(ctx); err != nil {
				return nil, err
			}
			return redisbroker.Check(ctx, rdb, topics...)
		},
		CheckConsumers: func(ctx context.Context, names []string) (int, []string, error) {
			if err := reach(ctx); err != nil {
				return 0, nil, err
			}
			return checkRedisConsumers(ctx, rdb, names)
		},
	}}, nil
}

// mostScans limits the search for streams: each scan looks at a thousand keys.
const mostScans = 1000

// checkRedisConsumers looks for groups with these names in the streams of the database.
func checkRedisConsumers(ctx context.Context, rdb *redis.Client, names []string) (found int, findings []string, err error) {
	var cursor uint64
	for range mostScans {
		var streams []string
		streams, cursor, err = rdb.ScanType(ctx, cursor, "*", 1000, "stream").Result()
		if err != nil {
			return found, findings, err
		}
		for _, stream := range streams {
			groups, err := rdb.XInfoGroups(ctx, stream).Result()
			if err != nil {
				return found, findings, err
			}
			for _, g := range groups {
				if !slices.Contains(names, g.Name) {
					continue
				}
				list, err := redisbroker.CheckConsumer(ctx, rdb, stream, g.Name)
				if err != nil {
					return found, findings, err
				}
				found++
				findings = append(findings, list...)
			}
		}
		if cursor == 0 {
			break
		}
	}
	return found, findings, nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
