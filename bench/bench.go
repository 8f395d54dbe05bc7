package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// bench is one run.
type bench struct {
	rounds  int
	slice   time.Duration
	quick   bool
	only    map[string]bool // empty: everything
	earlier string          // a commit
	hooks   webhookSize
	server  *server
}

func (b *bench) wants(section string) bool { return len(b.only) == 0 || b.only[section] }

func (b *bench) run(ctx context.Context) (r *report, err error) {
	if b.server, err = startServer(ctx); err != nil {
		return nil, err
	}
	defer b.server.close()
	if r, err = b.describe(ctx); err != nil {
		return nil, err
	}
	r.Load[0] = load()
	for _, step := range b.steps(r) {
		if !b.wants(step.section) || step.section == "earlier" && b.earlier == "" {
			continue
		}
		fmt.Fprintln(os.Stderr, "bench:", step.title)
		if err := step.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.section, err)
		}
	}
	r.Load[1] = load()
	return r, nil
}

// step makes one section of a report.
type step struct {
	section, title string
	run            func(context.Context) error
}

func (b *bench) steps(r *report) []step {
	list := []step{{"trips", "round trips and commits", into(&r.Costs, b.costs)}}
	for _, s := range allSettings {
		list = append(list, step{s.slug, s.title, func(ctx context.Context) error {
			t, err := b.throughput(ctx, s)
			if err == nil {
				r.Settings = append(r.Settings, *t)
			}
			return err
		}})
	}
	return append(list,
		step{"serializable", "SERIALIZABLE", into(&r.Serializable, b.serializable)},
		step{"optimistic", "look-up with the first statement", into(&r.Optimistic, b.optimistic)},
		step{"batch", "batch form", into(&r.Batch, b.batch)},
		step{"growth", "growth", into(&r.Growth, b.growth)},
		step{"memory", "middleware over memstore", into(&r.Middleware, func(context.Context) (*middleware, error) { return b.middleware() })},
		step{"sqlite", "SQLite", into(&r.SQLite, b.sqlite)},
		step{"group", "SQLite, group commit", into(&r.Groups, b.groups)},
		step{"mysql", "MySQL and MariaDB", into(&r.MySQL, b.mysql)},
		step{"sweep", "beside a sweeper", into(&r.Sweeping, b.sweeping)},
		step{"cache", "over HTTP", into(&r.HTTP, b.overHTTP)},
		step{"outbox", "outbox", into(&r.Outbox, b.outbox)},
		step{"outbox", "outbox on SQLite", into(&r.OutboxGroups, b.outboxGroups)},
		step{"relay", "relay of the outbox", into(&r.Relay, b.relay)},
		step{"earlier", "outbox of an earlier commit", into(&r.Earlier, b.relayEarlier)},
		step{"isolation", "a healthy topic beside topics in trouble", into(&r.Isolation, b.isolation)},
		step{"inbox", "inbox", into(&r.Inbox, b.inbox)},
		step{"lease", "lease", into(&r.Lease, b.lease)},
		step{"saga", "sagas", into(&r.Sagas, b.saga)},
		step{"webhook", "webhooks", into(&r.Webhooks, b.webhooks)},
		step{"gateway", "gateway", into(&r.Gateway, b.gateway)},
		step{"home", "regions", into(&r.Home, b.home)},
		step{"shared", "the shared cache", into(&r.Shared, b.shared)},
		step{"redis", "leased work in Redis", into(&r.Redis, b.redis)},
		step{"telemetry", "observers", into(&r.Telemetry, b.telemetry)},
		step{"lease", "leases that are held", into(&r.LeasesHeld, b.leaseHeld)},
		step{"pool", "a herd on a small pool", into(&r.Herd, b.herd)},
	)
}

func into[T any](place *T, measure func(context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		*place, err = measure(ctx)
		return err
	}
}
