package main

import (
	"context"
	"crypto/md5" //nolint:gosec // spreads made-up keys, protects nothing
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// growth shows how the cost of an operation depends on the number of stored keys.
type growth struct {
	Small    int       `json:"small"`
	SmallEnd int64     `json:"small_at_the_end"` // executions add to it
	Large    int       `json:"large"`
	Verdicts []verdict `json:"verdicts"` // cost at large over cost at small
}

const growthBar = 1.3

// stocked is a database with many keys.
type stocked struct {
	label string
	keys  int
	pool  *pgxpool.Pool
	*candidate
}

// loadKeys makes operations that can be replayed like those of Do. Keys are spread over the whole index, like UUIDs of version 4 and names of
// intents.
const loadKeys = `
insert into once_operation (scope, key, claim, fingerprint, body, expires_at)
select $1, md5(g::text), decode(md5(g::text), 'hex'), '\x00'::bytea || sha256(g::text::bytea), $2, now() + interval '72 hours'
from generate_series(1, $3) g order by 2`

func loadedKey(i int) string {
	sum := md5.Sum([]byte(strconv.Itoa(i))) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

func (b *bench) stock(ctx context.Context, label string, keys, clients int) (*stocked, error) {
	database, err := b.server.newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	pool, c, err := b.server.prepare(ctx, database, 1, setting{clients: clients})
	if err != nil {
		return nil, err
	}
	s := &stocked{label, keys, pool, c}
	r, err := newOrder().receipt()
	if err != nil {
		return s, err
	}
	if _, err := pool.Exec(ctx, loadKeys, scope, r, keys); err != nil {
		return s, err
	}
	_, err = pool.Exec(ctx, "vacuum analyze once_operation")
	return s, err
}

// receipt is the stored form of the response.
func (o order) receipt() ([]byte, error) { return json.Marshal(o.response()) }

// sorted executes under ascending keys, as once.NewKey makes them.
func (s *stocked) sorted(ctx context.Context) error { return s.executions(ctx) }

// spread executes under keys that are spread over the whole index.
func (s *stocked) spread(ctx context.Context) error {
	o := newOrder()
	return s.execute(ctx, newOperation(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), o), o)
}

// again replays any of the loaded keys.
func (s *stocked) again(ctx context.Context) error {
	return s.replay(ctx, newOperation(loadedKey(1+rand.N(s.keys)), newOrder()))
}

func (b *bench) growth(ctx context.Context) (*growth, error) {
	const clients = 16
	g := &growth{Small: 1e4, Large: 1e6}
	if b.quick {
		g.Large = 1e5
	}
	small, err := b.stock(ctx, "small", g.Small, clients)
	if small != nil {
		defer small.pool.Close()
	}
	if err != nil {
		return nil, err
	}
	large, err := b.stock(ctx, "large", g.Large, clients)
	if large != nil {
		defer large.pool.Close()
	}
	if err != nil {
		return nil, err
	}
	kinds := []struct {
		name string
		run  func(*stocked) func(context.Context) error
	}{
		{"Do, keys that grow (once.NewKey)", func(s *stocked) func(context.Context) error { return s.sorted }},
		{"Do, keys spread over the index", func(s *stocked) func(context.Context) error { return s.spread }},
		{"replays", func(s *stocked) func(context.Context) error { return s.again }},
	}
	// Few rounds, because otherwise the small table would not stay small.
	r := race{clients: clients, rounds: min(b.rounds, 30), slice: min(b.slice, 100*time.Millisecond), cpu: b.server.cpu()}
	for _, k := range kinds {
		for _, s := range []*stocked{small, large} {
			r.field = append(r.field, &contestant{name: k.name + " " + s.label, before: s.restart, run: k.run(s)})
		}
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	for _, k := range kinds {
		v := judge(r.field, comparison{k.name + " small", k.name + " large", growthBar})
		v.What, v.AtMost = k.name, true
		g.Verdicts = append(g.Verdicts, v.judged())
	}
	return g, small.pool.QueryRow(ctx, "select count(*) from once_operation").Scan(&g.SmallEnd)
}

func (g *growth) write(p printer) {
	p("\n## %s stored keys against %s\n", thousands(int64(g.Large)), thousands(int64(g.Small)))
	p("16 clients. Executions have made %s of the small table by the end.\n", thousands(g.SmallEnd))
	p("| cost per operation | ratio | bar | | by CPU time |")
	p("|---|---|---|---|---|")
	for _, v := range g.Verdicts {
		p("| %s | %s | %.2f |", v.What, v.cells(), v.CPU)
	}
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
