package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

// committing ends what the connections of a store send when they commit. Nothing
// is prepared here, so that it can be seen.
func committing(store string) string {
	if innodb(store) {
		return "COMMIT; DO " // what is to be done after
	}
	return "COMMIT\x00"
}

// cutter is a database behind a proxy that loses commits, or their answers.
type cutter struct {
	*testDB
	proxy *faultnet.Proxy
	met   doubts
	dsn   string
}

func newCutter(t *testing.T, store string) *cutter {
	t.Helper()
	g := newTestDB(t, store)
	proxy, err := faultnet.Listen(address(t, g.DSN))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return &cutter{testDB: g, proxy: proxy, dsn: plainly(g)}
}

// plainly is a data source name with which nothing is prepared.
func plainly(g *testDB) string {
	if innodb(g.Kind) {
		return g.DSN
	}
	return g.DSN + "&default_query_exec_mode=exec"
}

// behind opens a system behind the proxy.
func (c *cutter) behind(t *testing.T, conns int, cfg once.Config) system {
	t.Helper()
	cfg.Observer = &c.met
	return c.open(t, setup{dsn: c.dsn, dial: c.proxy.DialContext, conns: conns, engine: cfg})
}

// ready ends every answer of the server: with or without a transaction left open. That
// of MariaDB or MySQL falls silent.
func ready(store string) string {
	if innodb(store) {
		return ""
	}
	return strings.TrimSuffix(faultnet.PostgresIdle, "I")
}

// Two ways to lose a commit. They look the same to the client.
func (c *cutter) afterCommit() faultnet.Fault {
	return faultnet.SwallowAnswer(committing(c.Kind), ready(c.Kind))
}

func (c *cutter) beforeCommit() faultnet.Fault { return faultnet.CutBefore(committing(c.Kind)) }

// TestConnectionIsCutAtCommit cuts the connection of one client after COMMIT was sent, and before its
// answer or before the server has got it. Both are met with a network that heals at
// once, so that the engine can settle the matter, and with one that does not.
func TestConnectionIsCutAtCommit(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	for _, store := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := newCutter(t, store)
			for _, applied := range []bool{true, false} {
				for _, heals := range []bool{true, false} {
					for _, flow := range []string{flowDo, flowFailure, flowBatch} {
						for _, runs := range []int{1, 3} {
							name := fmt.Sprintf("applied=%v/heals=%v/%s/runs=%d", applied, heals, flow, runs)
							if err := c.one(t, applied, heals, flow, runs); err != nil {
								t.Errorf("%s: %v. %s", name, err, rerun(t))
							}
						}
					}
				}
			}
			testenv.Count("answers lost", int(c.met.lost.Load()))
			testenv.Reportf(t, "%s: %v", store, &c.met)
			if err := c.met.vacuous(); err != nil {
				t.Errorf("%v. %s", err, rerun(t))
			}
		})
	}
}

// nowhere refuses connections. No test gets a port so low.
const nowhere = "127.0.0.1:1"

func (c *cutter) one(t *testing.T, applied, heals bool, flow string, runs int) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	settle := patience
	if !heals {
		settle = 300 * time.Millisecond // in vain
	}
	s := c.behind(t, 1, once.Config{Runs: runs, Settle: settle})
	defer s.Close()
	key := fmt.Sprintf("cut-%v-%v-%s-%d", applied, heals, flow, runs)
	for { // a COMMIT on a busy machine may take longer than settle
		err := warm(ctx, s, plan{Key: key, Attempt: "warm"})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
	}
	fault := c.beforeCommit()
	if applied {
		fault = c.afterCommit()
	}
	if (flow == flowFailure || flow == flowBatch) && c.Kind == harness.Pgx {
		// It has no COMMIT: the pipeline is the transaction.
		fault = faultnet.CutBefore("insert into once_operation")
		if applied {
			fault = faultnet.SwallowAnswer("insert into once_operation", ready(c.Kind))
		}
	}
	if !heals {
		c.proxy.SetUpstream(nowhere)
	}
	trigger := c.proxy.Arm(fault)
	cl := &client{s: s, name: "client", flow: flow, op: operation(key)}
	got, told := cl.ask(ctx)
	select {
	case <-trigger.Done():
	case <-ctx.Done():
		return fmt.Errorf("the fault has not struck: %w", errors.Join(ctx.Err(), told))
	}
	c.proxy.SetUpstream(address(t, c.DSN))
	if err := c.asExpected(told, flow, applied, heals, runs); err != nil {
		return err
	}
	if told != nil {
		var err error
		if got, err = cl.insist(ctx); err != nil {
			return err
		}
	}
	return c.truthful(ctx, cl, got)
}

// asExpected says what a client must have been told, and not only that it is true.
func (c *cutter) asExpected(told error, flow string, applied, heals bool, runs int) error {
	want := "an answer"
	ok := told == nil
	switch {
	case !heals, !applied && flow == flowFailure, // a failure's commit may still be on its way
		!applied && flow == flowBatch && (c.Kind == harness.Pgx || innodb(c.Kind)) && runs == 1: // so may this one
		want, ok = "in doubt", told != nil && once.EffectOf(told) == once.EffectInDoubt
	case !applied && runs == 1:
		want, ok = "not applied", once.EffectOf(told) == once.EffectNotApplied
	}
	if !ok {
		return fmt.Errorf("want the client to be told %s: %w", want, told)
	}
	return nil
}

// TestCutMany cuts connections of 32 clients at random, two of which always want the
// same.
func TestCutMany(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const clients = 32
	rounds := scale(8, 200)
	for _, store := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := newCutter(t, store)
			s := c.behind(t, clients, once.Config{Runs: 1, Settle: patience})
			other := c.behind(t, clients, once.Config{Settle: patience})
			ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
			defer cancel()
			finished := make(chan struct{}, clients*rounds)
			stop := c.keepCutting(ctx, finished)
			defer stop()
			var group sync.WaitGroup
			for i := range clients {
				group.Go(func() {
					for round := range rounds {
						cl := &client{s: s, name: fmt.Sprintf("client%d", i), op: operation(fmt.Sprintf("many-%d-%d", i/2, round))}
						if i%2 == 1 {
							cl.s = other
						}
						got, err := cl.insist(ctx)
						if err == nil {
							err = c.truthful(ctx, cl, got)
						}
						if err != nil {
							t.Errorf("client %d, round %d: %v. %s", i, round, err, rerun(t))
							return
						}
						finished <- struct{}{}
					}
				})
			}
			group.Wait()
			testenv.Reportf(t, "%s: %d clients, %d operations; %v", store, clients, clients/2*rounds, &c.met)
			if err := c.met.vacuous(); err != nil {
				t.Errorf("%v. %s", err, rerun(t))
			}
		})
	}
}

// keepCutting loses a commit again and again, and returns what ends that. It counts
// what the clients have finished: a network that cuts everything lets no client finish.
func (c *cutter) keepCutting(ctx context.Context, finished <-chan struct{}) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	random := rand.New(rand.NewPCG(seed(), 0))
	go func() {
		defer c.proxy.Disarm()
		for ctx.Err() == nil {
			fault := c.beforeCommit()
			if random.IntN(2) == 0 {
				fault = c.afterCommit()
			}
			trigger := c.proxy.Arm(fault)
			select {
			case <-trigger.Fired():
			case <-ctx.Done():
			}
			for range random.IntN(4) {
				select {
				case <-finished:
				case <-ctx.Done():
				}
			}
		}
	}()
	return stop
}
