package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// bench is one run.
type bench struct {
	rounds int
	slice  time.Duration
	quick  bool
	only   map[string]bool // empty: everything
	server *server
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
	if b.wants("trips") {
		b.say("round trips and commits")
		if r.Costs, err = b.costs(ctx); err != nil {
			return nil, fmt.Errorf("trips: %w", err)
		}
	}
	for _, s := range allSettings {
		if !b.wants(s.slug) {
			continue
		}
		b.say(s.title)
		t, err := b.throughput(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.slug, err)
		}
		r.Settings = append(r.Settings, *t)
	}
	if b.wants("growth") {
		b.say("growth")
		if r.Growth, err = b.growth(ctx); err != nil {
			return nil, fmt.Errorf("growth: %w", err)
		}
	}
	if b.wants("memory") {
		b.say("middleware over memstore")
		if r.Middleware, err = b.middleware(); err != nil {
			return nil, fmt.Errorf("memory: %w", err)
		}
	}
	if b.wants("sqlite") {
		b.say("SQLite")
		if r.SQLite, err = b.sqlite(ctx); err != nil {
			return nil, fmt.Errorf("sqlite: %w", err)
		}
	}
	if b.wants("group") {
		b.say("SQLite, group commit")
		if r.Groups, err = b.groups(ctx); err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
	}
	if b.wants("sweep") {
		b.say("beside a sweeper")
		if r.Sweeping, err = b.sweeping(ctx); err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
	}
	return r, nil
}

func (b *bench) say(what string) { fmt.Fprintln(os.Stderr, "bench:", what) }
