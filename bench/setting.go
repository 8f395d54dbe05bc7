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
	delay       time.Duration // of a round trip, in addition
	bars        bars
}

type bars struct{ bare, insertUpdate, twoCommit, replays float64 }

var allSettings = []setting{
	{"local1", "1 client", 1, 0, bars{0.78, 1.05, 1.7, 5}},
	{"local16", "16 clients", 16, 0, bars{0.70, 1.05, 1.5, 5}},
	{"network16", "16 clients, 1 ms of network", 16, time.Millisecond, bars{0.90, 1.3, 1.5, 3}},
}

// Names of the contestants.
const (
	nameBare         = "bare"
	nameInsertUpdate = "insert-update"
	nameTwoCommit    = "two-commit"
	nameDo           = "Do"
	nameFirst        = "Do, first attempt"
	nameReplays      = "replays"
	nameElsewhere    = "replays elsewhere" // by a process that sees the operation for the first time
)

func (b bars) comparisons() []comparison {
	return []comparison{
		{nameDo, nameBare, b.bare},
		{nameDo, nameInsertUpdate, b.insertUpdate},
		{nameDo, nameTwoCommit, b.twoCommit},
		{nameReplays, nameDo, b.replays},
		{nameElsewhere, nameDo, 0},
		{nameFirst, nameBare, b.bare},
		{nameFirst, nameInsertUpdate, b.insertUpdate},
		{nameFirst, nameTwoCommit, b.twoCommit},
		{nameFirst, nameDo, 0},
		{nameInsertUpdate, nameBare, 0},
		{nameTwoCommit, nameBare, 0},
	}
}

// knownKeys is how many operations the replays elsewhere are spread over: so many
// that few are met twice in a slice.
const knownKeys = 20000

func field(pool *pgxpool.Pool, c *candidate) []*contestant {
	over := func(f func(context.Context, *pgxpool.Pool) error) func(context.Context) error {
		return func(ctx context.Context) error { return f(ctx, pool) }
	}
	other := c.elsewhere()
	return []*contestant{
		{name: nameBare, run: over(bare)},
		{name: nameDo, run: c.executions},
		{name: nameInsertUpdate, run: over(insertUpdate)},
		{name: nameFirst, run: c.first},
		{name: nameTwoCommit, run: over(twoCommit)},
		{name: nameReplays, run: c.recentReplays},
		{name: nameElsewhere, before: other.restart, run: other.replays},
	}
}

// throughput is the result of one setting.
type throughput struct {
	Slug      string        `json:"slug"`
	Title     string        `json:"title"`
	RoundTrip time.Duration `json:"round_trip_ns"` // of the smallest statement, as an idle client sees it
	Figures   []figure      `json:"figures"`
	Verdicts  []verdict     `json:"verdicts"`
}

// figure is the median of a contestant's laps.
type figure struct {
	Name      string        `json:"name"`
	PerSecond float64       `json:"per_second"`
	Client    time.Duration `json:"client_cpu_ns"` // per operation
	Server    time.Duration `json:"server_cpu_ns"`
}

func (c *contestant) figure() figure {
	var wall, client, server []float64
	for _, l := range c.laps {
		wall = append(wall, l.wall.Seconds())
		client = append(client, float64(l.client))
		server = append(server, float64(l.server))
	}
	w, _, _ := spread(wall)
	cl, _, _ := spread(client)
	se, _, _ := spread(server)
	return figure{c.name, 1 / w, time.Duration(cl), time.Duration(se)}
}

func (b *bench) throughput(ctx context.Context, s setting) (*throughput, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, c, err := b.server.prepare(ctx, database, knownKeys, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	trip, err := roundTrip(ctx, pool)
	if err != nil {
		return nil, err
	}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), field(pool, c)}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if err := audit(ctx, pool, r.field); err != nil {
		return nil, err
	}
	t := &throughput{Slug: s.slug, Title: s.title, RoundTrip: trip}
	for _, c := range r.field {
		t.Figures = append(t.Figures, c.figure())
	}
	for _, c := range s.bars.comparisons() {
		t.Verdicts = append(t.Verdicts, judge(r.field, c))
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
		case nameReplays, nameElsewhere:
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
