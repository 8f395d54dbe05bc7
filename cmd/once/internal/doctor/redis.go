package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/store/redisstore"
)

func isRedis(url string) bool {
	return strings.HasPrefix(url, "redis://") || strings.HasPrefix(url, "rediss://")
}

// examineRedis examines a server without SQL.
func examineRedis(ctx context.Context, url string) (doctor.Report, error) {
	options, err := redis.ParseURL(url)
	if err != nil { // the error does not show the URL, which may have a password
		return doctor.Report{}, cli.Usage("--db is not a URL of Redis", "--db redis://user@host:6379/0")
	}
	redis.SetLogger(silent{}) // it would print on standard error what the report says anyway
	options.MaxRetries, options.ContextTimeoutEnabled, options.DialerRetries = -1, true, 1
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }() // an error does not matter, because no request is running
	var answer redis.Error             // for example, that a password is missing: this is a finding, and not an unreachable server
	if err := rdb.Ping(ctx).Err(); err != nil && !errors.As(err, &answer) {
		return doctor.Report{}, cli.Unreachable(fmt.Errorf("cannot reach Redis at %s: %w. Try: use --db with the address of a running server", options.Addr, err))
	}
	return doctor.Examine(ctx, doctor.Config{Name: options.Addr, Store: redisstore.New(rdb, redisstore.Config{VolatileRecord: true})})
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
