package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/redisstore/rediscache"
)

// Replays on another node than the one that has executed them, and the cost of the cache for a first attempt.

const (
	nameReplayRead    = "replay on another node, a look-up in PostgreSQL"
	nameReplayShared  = "replay on another node, Redis"
	nameReplayCache   = "replay on the same node, in process"
	nameFirstAlone    = "first attempt, no shared cache"
	nameFirstShared   = "first attempt, shared cache"
	nameFirstHung     = "first attempt, shared cache whose Redis hangs"
	nameUnknownAlone  = "attempt that does not say its number, no shared cache"
	nameUnknownShared = "attempt that does not say its number, shared cache"
)

var sharedComparisons = []comparison{
	{nameReplayShared, nameReplayRead, 0.5},
	{nameReplayCache, nameReplayShared, 10},
	{nameFirstShared, nameFirstAlone, 0.85},
	{nameFirstHung, nameFirstAlone, 0.85},
	{nameUnknownShared, nameUnknownAlone, 0},
}

// retries repeats finished work. Its operations are made before.
func (c *candidate) retries() func(ctx context.Context) error {
	ops := make([]once.Operation, len(c.known))
	for i, k := range c.known {
		ops[i] = newOperation(k.key, k.order)
		ops[i].Attempt.Number = 2
	}
	return func(ctx context.Context) error { return c.replay(ctx, ops[rand.N(len(ops))]) }
}

func (b *bench) shared(ctx context.Context) (*throughput, error) {
	s := setting{slug: "shared", title: "The shared cache, 16 clients", clients: 16}
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, alone, err := b.server.prepare(ctx, database, 1, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	t := &throughput{Slug: s.slug, Title: s.title}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	used := b.server.cpu()
	var caches []once.SharedCache
	for range 2 {
		server, err := testenv.StartRedis(ctx, testenv.RedisConfig{})
		if err != nil {
			return nil, err
		}
		defer func() { _ = server.Close() }()
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: s.clients})
		defer func() { _ = client.Close() }()
		if caches = append(caches, rediscache.New(client, rediscache.Config{Prefix: "bench:"})); len(caches) == 2 {
			if err := errors.Join(client.Ping(ctx).Err(), server.Freeze()); err != nil { // its connections hang as well
				return nil, err
			}
		}
		used.others = append(used.others, server.Pid())
	}
	node := func(cfg once.Config) *candidate {
		cfg.CacheFor = time.Hour
		return &candidate{pool: pool, engine: once.New[pgx.Tx](pgxstore.New(pool, pgxstore.Config{}), cfg)}
	}
	here := node(once.Config{Shared: caches[0], Cache: 64 << 20})
	if err := here.learn(ctx, recent, 2); err != nil {
		return nil, err
	}
	read, there := node(once.Config{}), node(once.Config{Shared: caches[0]})
	read.known, there.known = here.known, here.known
	writer, hung := node(once.Config{Shared: caches[0]}), node(once.Config{Shared: caches[1]})
	r := race{s.clients, b.rounds, b.slice, used, []*contestant{
		{name: nameReplayRead, run: read.retries()}, {name: nameReplayShared, run: there.retries()}, {name: nameReplayCache, run: here.retries()},
		{name: nameFirstAlone, run: alone.first}, {name: nameFirstShared, run: writer.first}, {name: nameFirstHung, run: hung.first},
		{name: nameUnknownAlone, run: alone.executions}, {name: nameUnknownShared, run: writer.executions},
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(mostly(ctx, there.engine, gaugename.SharedCacheHits, gaugename.SharedCacheMisses), mostly(ctx, here.engine, gaugename.CacheHits, gaugename.CacheMisses)); err != nil {
		return nil, err
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range sharedComparisons {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}

// mostly returns an error if replays were not hits: then the figures would be those of the database.
func mostly(ctx context.Context, e gauge.Source, hits, misses string) error {
	values, err := e.Gauges(ctx)
	is := map[string]float64{}
	for _, v := range values {
		is[v.Name] = v.Number
	}
	if err == nil && is[hits] < 50*is[misses] {
		err = fmt.Errorf("%v hits, %v misses of %s", is[hits], is[misses], hits)
	}
	return err
}

func (r *report) writeShared(p printer) {
	p("\n## The shared cache\n")
	p("Replays of %d operations, and fresh operations. A **replay on another node** is one command to Redis and no statement, or one statement; Redis, PostgreSQL and the", recent)
	p("clients run on the same cores. A **first attempt** says so, and sends nothing to Redis in the foreground.")
	r.Shared.write(p)
}
