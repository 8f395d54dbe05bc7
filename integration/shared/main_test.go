package shared

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/redisstore/rediscache"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // servers are down here on purpose
	testenv.Main(m)
}

type silent struct{}

func (silent) Printf(_ context.Context, format string, v ...any) {
	log.New(io.Discard, "", 0).Printf(format, v...)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// start starts a server of this test, and returns a client of it.
func start(tb testing.TB) (*testenv.Redis, *redis.Client) {
	tb.Helper()
	testenv.Need(tb, "redis-server")
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	server, err := testenv.StartRedis(ctx, testenv.RedisConfig{})
	must(tb, err)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
	tb.Cleanup(func() {
		_ = client.Close()
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server, client
}

// watched is a cache that counts what it has found, and that a test may stand in front of. When the clock of a store is moved, what
// was put before is over.
type watched struct {
	once.SharedCache
	client *redis.Client

	hits, misses atomic.Int64
	onAdd        atomic.Pointer[func()]
	added        func() // after each Add; may be nil

	mu    sync.RWMutex
	moved time.Time
}

func watch(client *redis.Client) *watched {
	return &watched{SharedCache: rediscache.New(client, rediscache.Config{Prefix: "torture:"}), client: client}
}

func (w *watched) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := w.SharedCache.Get(ctx, key)
	if len(value) > 0 {
		w.hits.Add(1)
	} else {
		w.misses.Add(1)
	}
	return value, err
}

// patience bounds what should end by itself.
const patience = 2 * time.Minute

// until waits for what a server does not tell by itself.
func until(tb testing.TB, is func() bool) {
	tb.Helper()
	harness.Until(tb, func() error {
		if !is() {
			return errors.New("it has not happened")
		}
		return nil
	})
}

const cacheFor = 30 * time.Second // the default

func (w *watched) Add(ctx context.Context, key string, value []byte, until time.Time) error {
	if on := w.onAdd.Load(); on != nil {
		(*on)()
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if !until.Add(-cacheFor).After(w.moved) {
		return nil
	}
	err := w.SharedCache.Add(ctx, key, value, until)
	if w.added != nil {
		w.added()
	}
	return err
}

// advance ends what the cache holds, and what is on its way there.
func (w *watched) advance(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = time.Now()
	_ = w.client.FlushAll(ctx) // or it is down
}
