package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// setting is one column of the table of bars.
type setting struct {
	slug, title string
	clients     int
	delay       time.Duration // each way
	bars        bars
}

type bars struct{ bare, insertUpdate, twoCommit, replays float64 }

var allSettings = []setting{
	{"local1", "1 client", 1, 0, bars{0.78, 1.05, 1.7, 5}},
	{"local16", "16 clients", 16, 0, bars{0.70, 1.05, 1.5, 5}},
	{"network16", "16 clients, 1 ms of network", 16, 500 * time.Microsecond, bars{0.90, 1.3, 1.5, 3}},
}

// Names of the contestants.
const (
	nameBare         = "bare"
	nameInsertUpdate = "insert-update"
	nameTwoCommit    = "two-commit"
	nameDo           = "Do"
	nameFirst        = "Do, first attempt"
	nameReplays      = "replays"
)

func (b bars) comparisons() []comparison {
	return []comparison{
		{nameDo, nameBare, b.bare},
		{nameDo, nameInsertUpdate, b.insertUpdate},
		{nameDo, nameTwoCommit, b.twoCommit},
		{nameReplays, nameDo, b.replays},
		{nameFirst, nameBare, 0},
		{nameFirst, nameDo, 0},
		{nameInsertUpdate, nameBare, 0},
		{nameTwoCommit, nameBare, 0},
	}
}

// knownKeys is how many operations the replays are spread over.
const knownKeys = 5000

func field(pool *pgxpool.Pool, c *candidate) []*contestant {
	over := func(f func(context.Context, *pgxpool.Pool) error) func(context.Context) error {
		return func(ctx context.Context) error { return f(ctx, pool) }
	}
	return []*contestant{
		{name: nameBare, run: over(bare)},
		{name: nameDo, run: c.executions},
		{name: nameInsertUpdate, run: over(insertUpdate)},
		{name: nameFirst, run: c.first},
		{name: nameTwoCommit, run: over(twoCommit)},
		{name: nameReplays, run: c.replays},
	}
}

// throughput is the result of one setting.
type throughput struct {
	Slug      string             `json:"slug"`
	Title     string             `json:"title"`
	RoundTrip time.Duration      `json:"round_trip_ns"` // of SELECT on an idle machine, as the clients see it
	PerSecond map[string]float64 `json:"per_second"`    // medians
	Verdicts  []verdict          `json:"verdicts"`
}

func (b *bench) throughput(ctx context.Context, s setting) (*throughput, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	change := func(*pgxpool.Config) {}
	if s.delay > 0 {
		change = func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = delayed(s.delay) }
	}
	local, err := b.server.pool(ctx, database, int32(s.clients), nil)
	if err != nil {
		return nil, err
	}
	defer local.Close()
	c := newCandidate(local)
	if err := c.learn(ctx, knownKeys); err != nil {
		return nil, err
	}
	pool, err := b.server.pool(ctx, database, int32(s.clients), change)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	trip, err := roundTrip(ctx, pool)
	if err != nil {
		return nil, err
	}
	c.engine = newCandidate(pool).engine
	r := race{s.clients, b.rounds, b.slice, field(pool, c)}
	p, err := r.run(ctx)
	if err != nil {
		return nil, err
	}
	if err := audit(ctx, pool, r.field); err != nil {
		return nil, err
	}
	t := &throughput{Slug: s.slug, Title: s.title, RoundTrip: trip, PerSecond: map[string]float64{}}
	for name, perSecond := range p {
		t.PerSecond[name], _, _ = spread(perSecond)
	}
	for _, c := range s.bars.comparisons() {
		t.Verdicts = append(t.Verdicts, judge(p, c))
	}
	return t, nil
}

// roundTrip is the median time of the smallest statement.
func roundTrip(ctx context.Context, pool *pgxpool.Pool) (time.Duration, error) {
	took := make([]float64, 201)
	for i := range took {
		began := time.Now()
		if _, err := pool.Exec(ctx, "select 1"); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(began))
	}
	median, _, _ := spread(took)
	return time.Duration(median), nil
}

// audit counts what the contestants have left behind: a figure for work that was
// not done is worth nothing.
func audit(ctx context.Context, pool *pgxpool.Pool, field []*contestant) error {
	want := map[string]int64{"charge": knownKeys, "ledger_entry": knownKeys, "once_operation": knownKeys}
	for _, c := range field {
		var keys string
		switch c.name {
		case nameReplays:
			continue
		case nameBare:
		case nameDo, nameFirst:
			keys = "once_operation"
		case nameInsertUpdate:
			keys = "insert_update_key"
		case nameTwoCommit:
			keys = "two_commit_key"
		}
		want["charge"] += c.ops
		want["ledger_entry"] += c.ops
		if keys != "" {
			want[keys] += c.ops
		}
	}
	for table, n := range want {
		var rows int64
		if err := pool.QueryRow(ctx, "select count(*) from "+table).Scan(&rows); err != nil {
			return err
		}
		if rows != n {
			return fmt.Errorf("%d operations have left %d rows in %s", n, rows, table)
		}
	}
	return nil
}
