package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/pgxstore"
)

const scope = "acme POST /charges"

// candidate is once on one database.
type candidate struct {
	pool   *pgxpool.Pool
	engine *once.Engine[pgx.Tx]
	known  []known // executed before the clock starts
}

type known struct {
	key   string
	order order
}

func newCandidate(pool *pgxpool.Pool) *candidate {
	c := &candidate{pool: pool}
	c.restart()
	return c
}

// restart forgets whatever a process may remember of the operations it has seen.
func (c *candidate) restart() {
	c.engine = once.New(pgxstore.New(c.pool, pgxstore.Config{}), once.Config{})
}

// elsewhere is another process that knows which operations to ask for.
func (c *candidate) elsewhere() *candidate {
	other := newCandidate(c.pool)
	other.known = c.known
	return other
}

func newOperation(key string, o order) once.Operation {
	return once.Operation{Scope: scope, Key: key, Fingerprint: o.fingerprint()}
}

func (c *candidate) do(ctx context.Context, op once.Operation, o order) (once.Result[receipt], error) {
	return once.Do(ctx, c.engine, op, func(ctx context.Context, tx pgx.Tx) (receipt, error) {
		return o.place(ctx, tx)
	})
}

func (c *candidate) execute(ctx context.Context, op once.Operation, o order) error {
	r, err := c.do(ctx, op, o)
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

// executions asks for work under a new key, as the first attempt of a client does.
func (c *candidate) executions(ctx context.Context) error {
	o := newOrder()
	return c.execute(ctx, newOperation(once.NewKey(), o), o)
}

// first is executions by a client that says so.
func (c *candidate) first(ctx context.Context) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	op.Attempt.Number = 1
	return c.execute(ctx, op, o)
}

// replays asks again for work that is done.
func (c *candidate) replays(ctx context.Context) error {
	k := c.known[rand.N(len(c.known))]
	return c.replay(ctx, newOperation(k.key, k.order))
}

// recent is how many operations are asked for again in the process that has executed
// them: retries come soon, or from elsewhere. An engine remembers several times as many.
const recent = 2000

func (c *candidate) recentReplays(ctx context.Context) error {
	k := c.known[rand.N(min(recent, len(c.known)))]
	return c.replay(ctx, newOperation(k.key, k.order))
}

var errExecuted = errors.New("a replay has executed")

func (c *candidate) replay(ctx context.Context, op once.Operation) error {
	r, err := once.Do(ctx, c.engine, op, func(context.Context, pgx.Tx) (receipt, error) {
		return receipt{}, errExecuted
	})
	if err == nil && (!r.Replayed || r.Value.Status != "succeeded") {
		err = errExecuted
	}
	return err
}

// learn executes n operations for later replays.
func (c *candidate) learn(ctx context.Context, n, clients int) error {
	c.known = make([]known, n)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := client; i < n && errs[client] == nil; i += clients {
				c.known[i] = known{once.NewKey(), newOrder()}
				errs[client] = c.execute(ctx, newOperation(c.known[i].key, c.known[i].order), c.known[i].order)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
