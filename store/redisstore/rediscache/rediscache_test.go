package rediscache_test

// The tests with servers are in integration/shared: "make test-of DIR=store/redisstore/rediscache" runs them after these.

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/redisstore/rediscache"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// start starts a server of this test, and returns a client of it.
func start(tb testing.TB, config testenv.RedisConfig) (*testenv.Redis, *redis.Client) {
	tb.Helper()
	if config.Valkey {
		testenv.Need(tb, "valkey-server")
	} else {
		testenv.Need(tb, "redis-server")
	}
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	server, err := testenv.StartRedis(ctx, config)
	if err != nil {
		tb.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
	tb.Cleanup(func() {
		_ = client.Close()
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server, client
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// reads counts the reads that a client sends. The cache writes later, so a write can come at any time.
type reads struct{ n atomic.Int64 }

func (c *reads) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *reads) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "get" {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c *reads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// asked counts what a store is asked.
type asked struct {
	*memstore.Store
	n atomic.Int64
}

func (s *asked) Read(ctx context.Context, id store.ID) (store.Record, error) {
	s.n.Add(1)
	return s.Store.Read(ctx, id)
}

func (s *asked) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	s.n.Add(1)
	return s.Store.Begin(ctx, opts)
}

// patient is a cache that gets each result, however long that takes.
type patient struct{ once.SharedCache }

func (p patient) Add(ctx context.Context, key string, value []byte, until time.Time) error {
	return p.SharedCache.Add(context.WithoutCancel(ctx), key, value, until)
}

// TestReplayIsOneCommand: a replay on another node is one command and no statement, and is byte for byte that of the database; on Redis and on Valkey.
func TestReplayIsOneCommand(t *testing.T) {
	for name, valkey := range map[string]bool{"Redis": false, "Valkey": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := start(t, testenv.RedisConfig{Valkey: valkey})
			var sent reads
			client.AddHook(&sent)
			s := &asked{Store: memstore.New()}
			cfg := once.Config{Shared: patient{rediscache.New(client, rediscache.Config{Prefix: "test:"})}}
			var body []byte
			for i := range 256 {
				body = append(body, byte(i))
			}
			op := once.Operation{Scope: "s", Key: "k", Attempt: once.Attempt{Number: 1}}
			answer := func(context.Context, *memstore.Tx) (once.Answer, error) {
				return once.Answer{Result: store.Result{Status: 201, Body: body, Header: []store.Field{{Name: "A", Value: "\xff"}, {Name: "A", Value: ""}}}}, nil
			}
			_, _, err := once.New[*memstore.Tx](s, cfg).Exec(t.Context(), op, answer)
			must(t, err)
			if n := sent.n.Load(); n != 0 {
				t.Errorf("a first attempt has sent %d reads", n)
			}
			until(t, func() bool { return client.DBSize(t.Context()).Val() == 1 })
			want, err := s.Store.Read(t.Context(), store.ID{Scope: "s", Key: "k"})
			must(t, err)
			op.Attempt.Number = 2
			var got store.Record
			for tries := 1; ; tries++ { // on a busy machine the cache does not answer in time
				before, reads := s.n.Load(), sent.n.Load()
				var replayed bool
				got, replayed, err = once.New[*memstore.Tx](s, cfg).Exec(t.Context(), op, answer)
				asked, read := s.n.Load()-before, sent.n.Load()-reads
				if err == nil && replayed && asked == 0 && read == 1 {
					break
				}
				if err != nil || !replayed || tries == 20 {
					t.Fatalf("replayed %t, %v; %d statements, %d reads", replayed, err, asked, read)
				}
			}
			if g, w := got.Result, want.Result; g.Status != w.Status || string(g.Body) != string(w.Body) || len(g.Header) != 2 || g.Header[0] != w.Header[0] || g.Header[1] != w.Header[1] {
				t.Errorf("%+v, want %+v", g, w)
			}
		})
	}
}

// until waits for what a server does not tell by itself.
func until(tb testing.TB, is func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) { //nolint:forbidigo // there is no signal
		if time.Now().After(deadline) {
			tb.Fatal("it does not happen")
		}
	}
}

// TestArrivesLate: what arrives after its time is not kept, and what finds something stays away: a result, or the note that it was forgotten.
func TestArrivesLate(t *testing.T) {
	t.Parallel()
	_, client := start(t, testenv.RedisConfig{})
	c := rediscache.New(client, rediscache.Config{Prefix: "test:"})
	add := func(key, value string, life time.Duration) {
		t.Helper()
		must(t, c.Add(t.Context(), key, []byte(value), time.Now().Add(life)))
	}
	want := func(what, key, want string) {
		t.Helper()
		if got, err := c.Get(t.Context(), key); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	want("nothing", "a", "")
	add("a", "late", -time.Millisecond)
	want("after its time", "a", "")
	add("a", "first", time.Minute)
	add("a", "second", time.Hour)
	want("two", "a", "first")
	if life := client.PTTL(t.Context(), "test:a").Val(); life > time.Minute || life < 50*time.Second {
		t.Errorf("it lives for %v, want the minute of the first", life)
	}
	must(t, c.Replace(t.Context(), "a", nil, time.Now().Add(time.Hour)))
	want("forgotten", "a", "")
	add("a", "third", 2*time.Hour)
	want("on its way", "a", "")
	if life := client.PTTL(t.Context(), "test:a").Val(); life > time.Hour {
		t.Errorf("the note lives for %v, want an hour", life)
	}
}

// TestPrefixSeparatesDatabases: databases that share a server do not meet.
func TestPrefixSeparatesDatabases(t *testing.T) {
	t.Parallel()
	_, client := start(t, testenv.RedisConfig{})
	a, b := rediscache.New(client, rediscache.Config{Prefix: "prod:"}), rediscache.New(client, rediscache.Config{Prefix: "staging:"})
	until := time.Now().Add(time.Minute)
	must(t, a.Add(t.Context(), "k", []byte("of prod"), until))
	must(t, b.Replace(t.Context(), "k", nil, until))
	must(t, b.Add(t.Context(), "other", []byte("of staging"), until))
	for key, want := range map[string]string{"k": "of prod", "other": ""} {
		if got, err := a.Get(t.Context(), key); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
}

// TestErrorsOfTheServerAreReturned: a server that is down, that has no memory left, or that is a replica says so, of each of the methods that it refuses.
func TestErrorsOfTheServerAreReturned(t *testing.T) {
	t.Parallel()
	server, client := start(t, testenv.RedisConfig{Lines: "maxmemory 1\nmaxmemory-policy noeviction"})
	c := rediscache.New(client, rediscache.Config{Prefix: "test:"})
	add := func() error { return c.Add(t.Context(), "k", []byte("v"), time.Now().Add(time.Minute)) }
	replace := func() error { return c.Replace(t.Context(), "k", nil, time.Now().Add(time.Minute)) }
	if err := add(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("without memory: %v", err)
	}
	if err := replace(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("without memory: %v", err)
	}
	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	must(t, client.ReplicaOf(t.Context(), "127.0.0.1", strconv.Itoa(server.Port())).Err())
	if err := add(); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a replica: %v", err)
	}
	must(t, server.Kill())
	_, err := c.Get(t.Context(), "k")
	if err == nil || errors.Is(err, redis.Nil) || add() == nil || replace() == nil {
		t.Errorf("a server that is down: %v", err)
	}
}

// TestNewNeedsAPrefix panics without a prefix.
func TestNewNeedsAPrefix(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "Try:") {
			t.Errorf("it has panicked with %q", text)
		}
	}()
	rediscache.New(redis.NewClient(&redis.Options{}), rediscache.Config{})
}
