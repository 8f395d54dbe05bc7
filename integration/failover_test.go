package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestFailoversUnderLoad kills a primary under load and promotes its standby, again and again. With commits that wait for the standby,
// nothing that was acknowledged is missing. With commits that do not, the last ones are gone, each with its effect: so a retry
// executes once.
func TestFailoversUnderLoad(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, store := range []string{harness.Pgx, harness.Postgres} {
		for name, synced := range map[string]bool{"synchronous": true, "asynchronous": false} {
			t.Run(store+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := &failovers{pair: newPair(t, store), synced: synced, lot: rand.New(rand.NewPCG(seed(), 0))}
				t.Cleanup(f.close)
				f.s = f.open(t, setup{conns: 8, engine: once.Config{Runs: 1, Settle: impatient, Synced: synced}})
				if err := f.streams(t.Context()); err != nil {
					t.Fatal(err)
				}
				for n := range scale(2, 100) {
					if err := f.round(t.Context(), n); err != nil {
						t.Fatalf("failover %d: %v. %s", n, err, rerun(t))
					}
					testenv.Count("failovers, "+name, 1)
				}
				testenv.Count("acknowledged before a failover, "+name, f.kept+f.gone)
				testenv.Count("vanished with their effect, "+name, f.gone)
				testenv.Reportf(t, "%d acknowledged operations: %d kept, %d vanished with their effect; %d had no answer", f.kept+f.gone, f.kept, f.gone, f.unanswered)
				if synced != (f.gone == 0) || f.kept == 0 || f.unanswered == 0 {
					t.Errorf("vacuous: see above. %s", rerun(t))
				}
			})
		}
	}
}

// failovers is a pair that takes turns.
type failovers struct {
	*pair

	synced bool
	lot    *rand.Rand
	s      system

	kept, gone, unanswered int
}

// told is an operation of a client, and its answer if there was one.
type told struct {
	c     *client
	a     answer
	acked bool
}

// streams makes commits wait for the standby, or not.
func (f *failovers) streams(ctx context.Context) error {
	if f.synced {
		return f.primary.WaitsFor(ctx, f.standby)
	}
	if err := f.primary.Set(ctx, "synchronous_standby_names", ""); err != nil {
		return err
	}
	return f.follows(ctx)
}

// follows waits until the standby has what the primary has now. It writes something: a standby that has got nothing yet reports no place.
func (f *failovers) follows(ctx context.Context) error {
	lsn, err := f.primary.Query(ctx, "postgres", "select pg_logical_emit_message(true, 'once', 'here')")
	if err != nil {
		return err
	}
	return f.until(ctx, "select count(*) = 1 from pg_stat_replication where state = 'streaming' and flush_lsn >= '"+lsn+"'")
}

func (f *failovers) close() { _ = errors.Join(f.primary.Close(), f.standby.Close()) }

// round is one failover.
func (f *failovers) round(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := f.load(ctx, n)
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := f.judge(ctx, o); err != nil {
			return err
		}
	}
	for _, o := range all {
		again, err := o.c.insist(ctx)
		if err == nil {
			err = f.truthful(ctx, o.c, again)
		}
		if err != nil {
			return fmt.Errorf("on the new primary: %w", err)
		}
	}
	if err := f.primary.Close(); err != nil {
		return err
	}
	f.primary = f.standby.Postgres
	next, err := testenv.StartStandby(ctx, f.primary, "standby")
	if err != nil {
		return err
	}
	f.standby = next
	return f.streams(ctx)
}

// load has clients work until the primary dies beneath them, and promotes the standby.
func (f *failovers) load(ctx context.Context, n int) (all []told, err error) {
	const clients = 4
	target := 8 + f.lot.IntN(24)
	cut, enough, dead := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	acked := 0
	note := func(o told) {
		mu.Lock()
		defer mu.Unlock()
		if all = append(all, o); o.acked {
			acked++
		}
		if acked == target/2 && o.acked {
			close(cut)
		}
		if acked == target && o.acked {
			close(enough)
		}
	}
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for at, over := 0, false; !over; at++ { // one that survives the failover ends with its answer
				o := told{c: &client{s: f.s, name: "client", flow: []string{flowDo, flowBatch}[at%2], op: operation(fmt.Sprintf("failover-%d-%d-%d", n, i, at))}}
				var err error
				for answered := false; !answered && !over; answered = err == nil { // a COMMIT may be slow before the primary dies, too
					o.a, err = o.c.ask(ctx)
					select {
					case <-dead:
						over = true
					default:
						over = ctx.Err() != nil
					}
				}
				o.acked = err == nil
				note(o)
			}
		})
	}
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-ctx.Done():
		}
	}
	if wait(cut); !f.synced { // what follows is lost with the primary
		err = errors.Join(f.follows(ctx), f.standby.Cut(ctx))
	}
	wait(enough)
	err = errors.Join(err, ctx.Err(), f.primary.Kill())
	close(dead)
	err = errors.Join(err, f.promote(ctx))
	group.Wait()
	return all, err
}

// judge compares what was acknowledged with what the new primary has.
func (f *failovers) judge(ctx context.Context, o told) error {
	if !o.acked {
		f.unanswered++
		return nil
	}
	s, err := f.state(ctx, o.c.op.Key)
	switch {
	case err != nil:
		return err
	case s == executed(o.a.Attempt):
		f.kept++
	case s == (state{}) && !f.synced:
		f.gone++
	default:
		return fmt.Errorf("key %s was answered by %+v, and the new primary has %+v", o.c.op.Key, o.a, s)
	}
	return nil
}
