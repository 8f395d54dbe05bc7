package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// long is a TTL that a machine which is busy does not miss.
const long = 9 * time.Second

// waiting is an operation that is in a call, until it is released.
type waiting struct {
	called  chan struct{} // closed when the call is made
	release chan struct{}
	lost    chan error // gets the cause if the lease is lost meanwhile
	ended   chan struct{}
	result  once.Result[string]
	err     error
}

// wait begins an operation, and waits until it is in its call.
func (p program) wait(t *testing.T, key string) *waiting {
	t.Helper()
	e, _ := p.engine()
	return p.waitOn(t, e, key)
}

// waitOn is wait with an engine that has other operations.
func (p program) waitOn(t *testing.T, e *once.Engine[*lease.Run], key string) *waiting {
	t.Helper()
	w := &waiting{called: make(chan struct{}), release: make(chan struct{}), lost: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.result, w.err = once.Do(context.WithoutCancel(t.Context()), e, operation(key), func(ctx context.Context, r *lease.Run) (string, error) {
			return lease.Call(ctx, r, "charge", func(ctx context.Context, key string) (string, error) {
				close(w.called)
				select {
				case <-w.release:
				case <-ctx.Done():
					w.lost <- context.Cause(ctx)
					<-w.release
				}
				return p.post(ctx, "waiting", "charge", key, "charge")
			}, lease.CallPolicy{DedupedFor: time.Hour})
		})
	}()
	select {
	case <-w.called:
	case <-w.ended:
		t.Fatalf("the call is not made: %v", w.err)
	}
	return w
}

// leaseOf returns when the lease of an operation is over.
func (d database) leaseOf(tb testing.TB, key string) (at time.Time) {
	tb.Helper()
	must(tb, d.Pool().Query(tb.Context(), d.text("select lease_until from once_operation where KEY = ?", key), func(row sqlplane.Row) error {
		return row.Scan((*dialect.Time)(&at))
	}))
	return at
}

// untilRenewed waits until a lease is renewed.
func (d database) untilRenewed(t *testing.T, key string) {
	t.Helper()
	before := d.leaseOf(t, key)
	harness.Until(t, func() error {
		if now := d.leaseOf(t, key); !now.After(before) {
			return fmt.Errorf("the lease is over at %v, and was so before", now)
		}
		return nil
	})
}

// TestExhaustedPoolStillRenews: while others have all connections of the pool, and more wait for one, leases are renewed.
func TestExhaustedPoolStillRenews(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		if name == harness.SQLite {
			t.Skip("SQLite lets one transaction write at a time, so the case cannot exist")
		}
		o, service := newDatabase(t, name), newProvider(t, false)
		judge := o.mustOpen(t)
		defer judge.close()
		o.conns = 2
		db := o.mustOpen(t)
		defer db.close()
		w := program{db: db, url: service.URL, ttl: long}.wait(t, "k")
		release := make(chan struct{})
		var inside, others sync.WaitGroup
		inside.Add(o.conns)
		for i := range o.conns + 2 {
			others.Go(func() {
				err := db.Within(context.WithoutCancel(t.Context()), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
					_, err := r.Exec(ctx, db.text("insert into effect (operation, phase, value) values (?, 'p', 'v')", fmt.Sprint(i)))
					if i < o.conns {
						inside.Done()
						<-release
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
			if i == o.conns-1 {
				inside.Wait() // the others find the pool exhausted
			}
		}
		judge.untilRenewed(t, "k")
		close(release)
		others.Wait()
		close(w.release)
		<-w.ended
		if w.err != nil || w.result.Replayed {
			t.Errorf("%+v, %v", w.result, w.err)
		}
	})
}

// TestARowThatIsLockedCostsNoOtherLease: a phase of one operation waits for a row that another transaction has locked, and has locked the record of its
// operation by then. The leases of the other operations of the process are renewed meanwhile.
func TestARowThatIsLockedCostsNoOtherLease(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		if name == harness.SQLite {
			t.Skip("SQLite has no locks of rows, so the case cannot exist")
		}
		o, service := newDatabase(t, name), newProvider(t, false)
		judge := o.mustOpen(t)
		defer judge.close()
		p := program{db: o.mustOpen(t), url: service.URL, ttl: long}
		defer p.db.close()
		e, _ := p.engine()
		_, err := judge.Pool().Exec(t.Context(), judge.text("create table hot (id int primary key)"))
		must(t, err)
		hot := p.db.text("insert into hot values (1)")
		locked, release, unlocked := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		errTaken := errors.New("rolled back")
		go func() {
			unlocked <- judge.Within(context.WithoutCancel(t.Context()), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
				_, err := r.Exec(ctx, hot)
				close(locked)
				<-release
				return errors.Join(err, errTaken)
			})
		}()
		unlock := sync.OnceFunc(func() { close(release) })
		defer unlock()
		<-locked
		w := p.waitOn(t, e, "k")
		writing, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := once.Do(context.WithoutCancel(t.Context()), e, operation("hot"), func(ctx context.Context, r *lease.Run) (string, error) {
				if _, err := lease.InBatch(ctx, r, "first", func(*once.Batch) (string, error) { return "", nil }); err != nil {
					return "", err
				}
				return lease.InBatch(ctx, r, "second", func(b *once.Batch) (string, error) {
					b.Add(hot)
					close(writing)
					return "", nil
				})
			})
			ended <- err
		}()
		<-writing
		for range 4 { // for longer than a lease
			judge.untilRenewed(t, "k")
		}
		select {
		case err := <-w.lost:
			t.Errorf("the lease of another operation is lost: %v", err)
		case err := <-ended: // an error: its own lease was lost
			if ended <- err; err == nil {
				t.Error("vacuous: the write does not wait")
			}
		default:
		}
		unlock()
		if err := <-unlocked; !errors.Is(err, errTaken) {
			t.Error(err)
		}
		<-ended
		close(w.release)
		<-w.ended
		if w.err != nil {
			t.Error(w.err)
		}
	})
}

// TestHeartbeatCut: all connections are cut while an operation is in a call. Its lease is renewed on a new one.
func TestHeartbeatCut(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	o, service, proxy := proxied(t)
	judge := o.mustOpen(t)
	defer judge.close()
	o.dial = proxy.DialContext
	p := program{db: o.mustOpen(t), url: service.URL, policy: deduped, ttl: long}
	defer p.db.close()
	w := p.wait(t, "k")
	judge.untilRenewed(t, "k")
	if proxy.CutAll() == 0 {
		t.Error("vacuous: there was no connection")
	}
	judge.untilRenewed(t, "k")
	select {
	case err := <-w.lost:
		t.Errorf("the lease is lost: %v", err)
	default:
	}
	close(w.release)
	<-w.ended
	wantOneCharge(t, service)
}

// TestHeartbeatUnanswered: the database does not answer for longer than the lease. The handler's context ends, with the cause, and another
// process finishes the work.
func TestHeartbeatUnanswered(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	o, service, proxy := proxied(t)
	successor := program{db: o.mustOpen(t), url: service.URL, policy: deduped, by: "successor"}
	defer successor.db.close()
	o.dial = proxy.DialContext
	p := program{db: o.mustOpen(t), url: service.URL, policy: deduped}
	defer p.db.close()
	w := p.wait(t, "k")
	proxy.Arm(faultnet.Withhold(""))
	select {
	case err := <-w.lost:
		if !errors.Is(err, once.ErrClaimLost) {
			t.Errorf("the context has ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the handler's context does not end")
	}
	e, _ := successor.engine()
	var value string
	harness.Until(t, func() error {
		r, err := once.Do(t.Context(), e, operation("k"), func(ctx context.Context, r *lease.Run) (string, error) {
			return successor.call(ctx, r, "waiting", "charge", nil)
		})
		value = r.Value
		return err
	})
	proxy.Disarm()
	proxy.CutAll()
	close(w.release)
	<-w.ended
	if w.err == nil && w.result.Value != value {
		t.Errorf("the first process has %+v, and the second one %q", w.result, value)
	}
	wantOneCharge(t, service)
}

func proxied(t *testing.T) (opening, *provider, *faultnet.Proxy) {
	t.Helper()
	o := newDatabase(t, harness.Pgx)
	proxy, err := faultnet.Listen(testenv.SharedPostgres(t).Addr())
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return o, newProvider(t, true), proxy
}

func wantOneCharge(t *testing.T, service *provider) {
	t.Helper()
	if requests, effects := service.of("waiting", "charge"); len(requests) == 0 || len(effects) != 1 || len(effects[lease.Key(scope, "k", "charge", 0)]) != 1 {
		t.Errorf("%+v %q", requests, effects)
	}
}
