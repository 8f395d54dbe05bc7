package doctor

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/store/redisstore"
)

func isRedis(url string) bool {
	return strings.HasPrefix(url, "redis://") || strings.HasPrefix(url, "rediss://")
}

// examineRedis examines a server without SQL. A server that does not answer is one of the findings.
func examineRedis(ctx context.Context, url string) (doctor.Report, error) {
	options, err := redis.ParseURL(url)
	if err != nil { // which may have the password
		return doctor.Report{}, cli.Usage("--db is not a URL of Redis", "--db redis://user@host:6379/0")
	}
	redis.SetLogger(silent{}) // it repeats on standard error what the report says
	options.MaxRetries, options.ContextTimeoutEnabled, options.DialerRetries = -1, true, 1
	rdb := redis.NewClient(options)
	defer rdb.Close()
	return doctor.Examine(ctx, doctor.Config{Name: options.Addr, Store: redisstore.New(rdb, redisstore.Config{VolatileRecord: true})})
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
