package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	for _, store := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		for name, synced := range map[string]bool{"synchronous": true, "asynchronous": false} {
			t.Run(store+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := &failovers{synced: synced, lot: rand.New(rand.NewPCG(seed(), 0))}
				if slices.Contains(innodbStores, store) {
					pair := &innodbPair{newReplicated(t, store, testenv.ReplicationStandby(store == harness.MySQL))}
					pair.DSN = "service@tcp(" + pair.front.Addr() + ")/app"
					f.testDB, f.servers = pair.testDB, pair
				} else {
					pair := &postgresPair{newPair(t, store)}
					f.testDB, f.servers = pair.testDB, pair
				}
				t.Cleanup(func() { _ = f.servers.close() })
				f.s = f.open(t, setup{conns: 8, engine: once.Config{Runs: 1, Settle: impatient, Synced: synced}})
				if err := f.servers.stream(t.Context(), synced); err != nil {
					t.Fatal(err)
				}
				for n := range f.rounds() {
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

// failovers are the rounds of one pair of servers.
type failovers struct {
	*testDB

	servers failoverPair
	synced  bool
	lot     *rand.Rand
	s       system

	kept, gone, unanswered int
}

// rounds are fewer where each new standby applies the whole binary log again.
func (f *failovers) rounds() int {
	if slices.Contains(innodbStores, f.Kind) {
		return scale(2, 50)
	}
	return scale(2, 100)
}

// failoverPair is a primary and its standby.
type failoverPair interface {
	stream(ctx context.Context, synced bool) error // commits wait for the standby, or the standby has all that the primary has now
	cut(ctx context.Context) error                 // the standby has all that the primary has now, and receives nothing more
	kill() error                                   // the primary
	promote(ctx context.Context) error             // the standby, to which new connections go
	renew(ctx context.Context) error               // the new primary has a new standby, and the old one is closed
	close() error
}

// told is an operation of a client, and its answer if there was one.
type told struct {
	c     *client
	a     answer
	acked bool
}

type postgresPair struct{ *pair }

func (p *postgresPair) stream(ctx context.Context, synced bool) error {
	if synced {
		return p.primary.WaitsFor(ctx, p.standby)
	}
	if err := p.primary.Set(ctx, "synchronous_standby_names", ""); err != nil {
		return err
	}
	return p.follows(ctx)
}

// follows waits until the standby has what the primary has now. It writes something: a standby that has got nothing yet reports no place.
func (p *postgresPair) follows(ctx context.Context) error {
	lsn, err := p.primary.Query(ctx, "postgres", "select pg_logical_emit_message(true, 'once', 'here')")
	if err != nil {
		return err
	}
	return p.until(ctx, "select count(*) = 1 from pg_stat_replication where state = 'streaming' and flush_lsn >= '"+lsn+"'")
}

func (p *postgresPair) cut(ctx context.Context) error {
	return errors.Join(p.follows(ctx), p.standby.Cut(ctx))
}

func (p *postgresPair) kill() error { return p.primary.Kill() }

func (p *postgresPair) renew(ctx context.Context) error {
	if err := p.primary.Close(); err != nil {
		return err
	}
	p.primary = p.standby.Postgres
	next, err := testenv.StartStandby(ctx, p.primary, "standby")
	if err != nil {
		return err
	}
	p.standby = next
	return nil
}

func (p *postgresPair) close() error { return errors.Join(p.primary.Close(), p.standby.Close()) }

// innodbPair is a MariaDB or a MySQL with semi-synchronous replication, or with asynchronous one.
type innodbPair struct{ *replicated }

func (p *innodbPair) stream(ctx context.Context, synced bool) error {
	if synced {
		return p.replica.WaitsFor(ctx)
	}
	return p.replica.CatchUp(ctx)
}

func (p *innodbPair) cut(ctx context.Context) error {
	return errors.Join(p.replica.CatchUp(ctx), p.replica.Cut(ctx))
}

func (p *innodbPair) kill() error { return p.primary.Kill() }

func (p *innodbPair) promote(ctx context.Context) error {
	if err := p.replica.Promote(ctx); err != nil {
		return err
	}
	p.reach(p.replica.MariaDB)
	db, err := sql.Open("mysql", p.replica.DSN("app"))
	if err == nil {
		_ = p.db.Close()
		p.db = db
	}
	return err
}

func (p *innodbPair) renew(ctx context.Context) error {
	if err := p.primary.Close(); err != nil {
		return err
	}
	p.primary = p.replica.MariaDB
	next, err := testenv.StartReplica(ctx, p.primary, testenv.ReplicationStandby(p.Kind == harness.MySQL))
	if err != nil {
		return err
	}
	p.replica = next
	return nil
}

func (p *innodbPair) close() error { return errors.Join(p.primary.Close(), p.replica.Close()) }

// round is one failover.
func (f *failovers) round(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*patience) // a new standby may have to apply thousands of transactions
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
	if err := f.servers.renew(ctx); err != nil {
		return err
	}
	return f.servers.stream(ctx, f.synced)
}

// load has clients work until the primary dies beneath them, and promotes the standby.
func (f *failovers) load(ctx context.Context, n int) (all []told, err error) {
	const clients = 4
	half := 4 + f.lot.IntN(12)
	dead := make(chan struct{})
	var mu sync.Mutex
	left, enough := half, make(chan struct{}) // enough is closed when left is 0
	note := func(o told) {
		mu.Lock()
		defer mu.Unlock()
		if all = append(all, o); !o.acked {
			return
		}
		if left--; left == 0 {
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
	wait := func() {
		select {
		case <-enough:
		case <-ctx.Done():
		}
	}
	if wait(); !f.synced { // later answers are lost with the primary
		err = f.servers.cut(ctx)
	}
	mu.Lock()
	left, enough = half, make(chan struct{})
	mu.Unlock()
	wait()
	err = errors.Join(err, ctx.Err(), f.servers.kill())
	close(dead)
	err = errors.Join(err, f.servers.promote(ctx))
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
