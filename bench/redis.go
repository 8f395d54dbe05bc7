package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/redisstore"
)

// Work under a lease in Redis, against the same in PostgreSQL. Both write to the disk before they answer; the call itself takes no time.

const (
	nameCallInPostgres     = "one call, pgxstore"
	nameCallInRedis        = "one call, redisstore, appendfsync always"
	nameCallInRedisSeconds = "one call, redisstore, appendfsync everysec"
)

const redisBar = 0.6

func (b *bench) redis(ctx context.Context) (*throughput, error) {
	s := setting{slug: "redis", title: "Leased work in Redis, 16 clients", clients: 16}
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, _, err := b.server.prepare(ctx, database, 1, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	t := &throughput{Slug: s.slug, Title: s.title}
	if t.RoundTrip, err = roundTrip(ctx, pool); err != nil {
		return nil, err
	}
	used := b.server.cpu()
	field := []*contestant{{name: nameCallInPostgres, run: leasedIn(pgxstore.New(pool, pgxstore.Config{})).call(false)}}
	for name, fsync := range map[string]string{nameCallInRedis: "always", nameCallInRedisSeconds: "everysec"} {
		server, err := testenv.StartRedis(ctx, testenv.RedisConfig{Lines: "appendonly yes\nappendfsync " + fsync + "\n"})
		if err != nil {
			return nil, err
		}
		defer func() { _ = server.Close() }()
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, PoolSize: s.clients})
		defer func() { _ = rdb.Close() }()
		in := redisstore.New(rdb, redisstore.Config{VolatileRecord: true})
		if err := in.Check(ctx); err != nil {
			return nil, err
		}
		used.others = append(used.others, server.Pid())
		field = append(field, &contestant{name: name, run: leasedIn(in).call(false)})
	}
	r := race{s.clients, b.rounds, b.slice, used, field}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range []comparison{{nameCallInRedis, nameCallInPostgres, redisBar}, {nameCallInRedisSeconds, nameCallInPostgres, redisBar}} {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
	}
	return t, nil
}

// leasedIn is an engine under leases on a store without transactions of the handler.
func leasedIn(s store.Operations) leasedWork {
	return leasedWork{engine: once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard})}
}

func (r *report) writeRedis(p printer) {
	p("\n## Leases in Redis\n")
	p("Three writes or reads each, in the memory of one thread and an append-only file, against the rows of PostgreSQL with fsync. The call takes no time.")
	r.Redis.write(p)
}
