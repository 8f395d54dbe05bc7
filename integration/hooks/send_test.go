package hooks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/storetest"
	"github.com/oncelib/once/webhook"
)

// TestSendCommits: an event and its deliveries stand and fall with the transaction; each endpoint of the tenant that wants the type and is not disabled or deleted gets
// one, and no other does.
func TestSendCommits(t *testing.T) {
	testenv.Both(t)
	on(t, testSendCommits[pgx.Tx], testSendCommits[*sql.Tx])
}

func testSendCommits[TX any](t *testing.T, g *fixture[TX]) {
	g.endpoint(t, "acme", "refund.*", "a.b.*")
	g.endpoint(t, "acme", "*")
	g.endpoint(t, "acme", "payment.failed", "refund")
	g.endpoint(t, "other", "*")
	off, gone := g.endpoint(t, "acme", "*", "off"), g.endpoint(t, "acme", "*", "gone")
	_, err := g.hooks.Endpoints().Disable(t.Context(), "acme", off.ID)
	must(t, errors.Join(err, g.hooks.Endpoints().Delete(t.Context(), "acme", gone.ID)))

	failed := errors.New("failed")
	must(t, g.do(t.Context(), store.DefaultIsolation, func(ctx context.Context, tx TX) error {
		return errors.Join(g.hooks.Send(ctx, tx), g.hooks.Send(ctx, tx, event("acme", "refund.succeeded"), event("acme", "payment.failed")), g.charge(ctx, tx, "x"))
	}))
	err = g.do(t.Context(), store.DefaultIsolation, func(ctx context.Context, tx TX) error {
		return errors.Join(g.hooks.Send(ctx, tx, event("acme", "rolled.back")), failed)
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	tx, commit := g.begin(t)
	must(t, errors.Join(g.hooks.Send(t.Context(), tx, event("acme", "a.b.c.d.e.f.g.h"), event("acme", "a.bc")), commit()))
	g.send(t, event("acme", "refund"), event("acme", "Refund.x"), event("none", "refund.x"))
	g.want(t, "acme [refund.* a.b.*] refund.succeeded", "acme [*] refund.succeeded", "acme [payment.failed refund] payment.failed", "acme [*] payment.failed",
		"acme [refund.* a.b.*] a.b.c.d.e.f.g.h", "acme [*] a.b.c.d.e.f.g.h", "acme [*] a.bc", "acme [payment.failed refund] refund", "acme [*] refund", "acme [*] Refund.x")
	if n := g.count(t, "select count(*) from once_webhook_event"); n != 7 { // also what nobody wants now: it can be replayed
		t.Errorf("%d events, want 7", n)
	}
}

// TestSendChecks: an event that is not valid is refused before anything is stored, and an ID that was used before fails the transaction.
func TestSendChecks(t *testing.T) {
	testenv.Both(t)
	on(t, testSendChecks[pgx.Tx], testSendChecks[*sql.Tx])
}

func testSendChecks[TX any](t *testing.T, g *fixture[TX]) {
	g.endpoint(t, "acme", "*")
	must(t, g.do(t.Context(), store.DefaultIsolation, func(ctx context.Context, tx TX) error {
		for _, bad := range []webhook.Event{event("", "a"), event("acme", ""), event("acme", "a..b"), event("acme", "a.*"), event("acme", "*"), event("acme", "a b"), event("acme", "webhook.test"),
			event("acme", "a.b.c.d.e.f.g.h.i"), {ID: "a.b", Tenant: "acme", Type: "a"}, {Tenant: "acme", Type: "a", Data: make([]byte, 256<<10+1)}, event("a\x00", "a")} {
			var failure *store.Error
			if err := g.hooks.Send(ctx, tx, event("acme", "good"), bad); err == nil || errors.As(err, &failure) {
				t.Errorf("%+v: %v", bad.Type, err)
			}
		}
		return g.charge(ctx, tx, "still used")
	}))
	g.want(t)
	mine := event("acme", "a")
	mine.ID = "msg_mine"
	g.send(t, mine)
	err := g.do(t.Context(), store.DefaultIsolation, func(ctx context.Context, tx TX) error {
		return errors.Join(g.charge(ctx, tx, "twice"), g.hooks.Send(ctx, tx, mine))
	})
	if !errors.Is(err, sqlplane.ErrDuplicate) || g.count(t, "select count(*) from charge where id = 'twice'") > 0 {
		t.Errorf("an ID twice: %v", err)
	}
	g.want(t, "acme [*] a")
}

// TestSendTrace: an event has the trace of the call that has sent it, and none if the tracer says what is no text.
func TestSendTrace(t *testing.T) {
	testenv.Both(t)
	on(t, testSendTrace[pgx.Tx], testSendTrace[*sql.Tx])
}

func testSendTrace[TX any](t *testing.T, g *fixture[TX]) {
	type key struct{}
	cfg := config()
	cfg.Trace = func(ctx context.Context) string { text, _ := ctx.Value(key{}).(string); return text }
	traced := *g
	traced.hooks = webhook.New(g.db, cfg)
	g.endpoint(t, "acme", "*")
	for _, batch := range []bool{false, true} {
		must(t, sends(context.WithValue(t.Context(), key{}, "traced"), &traced, g.engine, fmt.Sprint("traced.", batch), batch))
		must(t, sends(context.WithValue(t.Context(), key{}, "bad\x00"), &traced, g.engine, fmt.Sprint("bad.", batch), batch))
	}
	if n, all := g.count(t, "select count(*) from once_webhook_event where trace = 'traced' and type in ('traced.false', 'traced.true')"), g.count(t, "select count(*) from once_webhook_event where trace <> ''"); n != 4 || all != 4 {
		t.Errorf("%d and %d events have the trace, want 4", n, all)
	}
}

// TestSendBesideSend: while a transaction is open that has sent, others send, also events of other tenants with IDs that lie just before its own.
func TestSendBesideSend(t *testing.T) {
	testenv.Both(t)
	onKinds(t, writersAtOnce, testSendBesideSend[pgx.Tx], testSendBesideSend[*sql.Tx])
}

func testSendBesideSend[TX any](t *testing.T, g *fixture[TX]) {
	g.endpoint(t, "acme", "*")
	g.endpoint(t, "other", "*")
	first := event("acme", "a")
	first.ID = "msg_m"
	txn, _, err := g.db.Begin(t.Context(), store.BeginOptions{Isolation: store.RepeatableRead})
	must(t, err)
	must(t, g.hooks.Send(t.Context(), txn.Tx(), first))
	for _, id := range []string{"msg_l", "msg_n", "msg_a", "msg_z"} {
		e := event("other", "b")
		e.ID = id
		g.send(t, e)
	}
	must(t, txn.Commit(t.Context(), store.Change{}))
	g.want(t, "acme [*] a", "other [*] b", "other [*] b", "other [*] b", "other [*] b")
}

// sends is an operation that sends two events, whose type is its key.
func sends[TX any](ctx context.Context, g *fixture[TX], e *once.Engine[TX], key string, batch bool) error {
	op := once.Operation{Scope: "sends", Key: key}
	if batch {
		_, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (string, error) {
			b.Exec(harness.Text(g.db, "insert into charge (id) values (?)").SQL, key)
			return "", g.hooks.Declare(ctx, b, event("acme", key), event("acme", key))
		})
		return err
	}
	_, err := once.Do(ctx, e, op, func(ctx context.Context, tx TX) (string, error) {
		return "", errors.Join(g.hooks.Send(ctx, tx, event("acme", key)), g.charge(ctx, tx, key), g.hooks.Send(ctx, tx, event("acme", key)))
	})
	return err
}

// judge compares what was told with the database, and asks the same operation again: two events for each of two endpoints, or nothing.
func (g *fixture[TX]) judge(t *testing.T, key string, batch bool, told error) {
	t.Helper()
	stored := func() (charges, events, deliveries int) {
		return g.count(t, "select count(*) from charge where id = ?", key), g.count(t, "select count(*) from once_webhook_event where type = ?", key),
			g.count(t, "select count(*) from once_webhook_delivery d join once_webhook_event v on v.id = d.event where v.type = ?", key)
	}
	charges, events, deliveries := stored()
	if events != 2*charges || deliveries != 4*charges || told == nil && charges != 1 || once.EffectOf(told) == once.EffectNotApplied && charges != 0 {
		t.Errorf("%s: %d charges, %d events, %d deliveries after %v", key, charges, events, deliveries, told)
	}
	err := sends(t.Context(), g, g.engine, key, batch)
	for once.CodeOf(err) == once.CodeInFlight { // until the server sees that the connection of a process that was killed is gone
		err = sends(t.Context(), g, g.engine, key, batch)
	}
	must(t, err)
	if charges, events, deliveries := stored(); charges != 1 || events != 2 || deliveries != 4 {
		t.Errorf("%s: in the end %d charges, %d events, %d deliveries", key, charges, events, deliveries)
	}
}

// TestSendWithEveryFault: whichever call of the store fails, is lost or applied later, a charge has its events and deliveries, and once.
func TestSendWithEveryFault(t *testing.T) {
	testenv.Both(t)
	on(t, testSendWithEveryFault[pgx.Tx], testSendWithEveryFault[*sql.Tx])
}

func testSendWithEveryFault[TX any](t *testing.T, g *fixture[TX]) {
	g.endpoint(t, "acme", "*")
	g.endpoint(t, "acme", "*", "x")
	for _, batch := range []bool{false, true} {
		harness.Loop(t, 2, func(n int) bool {
			key := fmt.Sprintf("point%d-%t", n, batch)
			faults := storetest.NewFaults[TX](g.db)
			faults.Arm(storetest.Plan{Nth: []int{n}})
			err := sends(t.Context(), g, once.New[TX](faults, once.Config{Observer: once.Discard}), key, batch)
			struck := len(faults.Heal()) > 0
			g.judge(t, key, batch, err)
			return struck
		})
	}
}

// plan is what a process does: it sends events.
type plan struct {
	harness.Database

	Key string
	At  int64 // it kills itself at this point
}

// CarryOut implements harness.Plan.
func (p plan) CarryOut(ctx context.Context) error {
	return p.Use(ctx, func(s harness.Store[pgx.Tx]) error { return carryOut(ctx, p, s) }, func(s harness.Store[*sql.Tx]) error { return carryOut(ctx, p, s) })
}

func carryOut[TX any](ctx context.Context, p plan, s harness.Store[TX]) error {
	var points atomic.Int64
	at := func(string) {
		if points.Add(1) == p.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	g := fixtureOn(p.Database, harness.Store[TX](&harness.Points[TX]{Store: s, At: at}))
	return sends(ctx, g, g.engine, p.Key, false)
}

// TestKillInSend: a process is killed before and after each statement and the commit of an operation that sends: its effect has its events and deliveries, or nothing
// is there. The next process makes it whole.
func TestKillInSend(t *testing.T) {
	testenv.Prove(t)
	on(t, testKillInSend[pgx.Tx], testKillInSend[*sql.Tx])
}

func testKillInSend[TX any](t *testing.T, g *fixture[TX]) {
	g.endpoint(t, "acme", "*")
	g.endpoint(t, "acme", "*", "x")
	harness.Loop(t, 3, func(n int) bool {
		key := fmt.Sprintf("point%d", n)
		_, killed := harness.Start(t, plan{g.Database, key, int64(n)}).End(t)
		var told error
		if killed {
			told = &store.Error{Kind: store.KindLost, Err: errors.New("killed")} // whoever asked knows nothing
		}
		g.judge(t, key, false, told)
		return killed
	})
}

// TestSendBesideChanges: while endpoints are changed, rotated, disabled, enabled and created at the same time, no transaction that sends fails, at any isolation, and no
// change does. On PostgreSQL and SQLite no change waits for a transaction that has sent either, as long as that does not hold the lock to write.
func TestSendBesideChanges(t *testing.T) {
	testenv.Both(t)
	on(t, testSendBesideChanges[pgx.Tx], testSendBesideChanges[*sql.Tx])
}

func testSendBesideChanges[TX any](t *testing.T, g *fixture[TX]) {
	e := g.endpoint(t, "acme", "*")
	es := g.hooks.Endpoints()
	change := func(n int) error {
		ctx := t.Context()
		now, err := es.Get(ctx, "acme", e.ID)
		now.Description = fmt.Sprint(n)
		if err == nil {
			_, err = es.Update(ctx, now)
		}
		_, _, rotated := es.Rotate(ctx, "acme", e.ID, webhook.Rotation{})
		_, disabled := es.Disable(ctx, "acme", e.ID)
		_, enabled := es.Enable(ctx, "acme", e.ID)
		_, _, created := es.Create(ctx, webhook.Endpoint{Tenant: "acme", URL: "https://203.0.113.8", Types: []string{"never"}})
		return errors.Join(err, rotated, disabled, enabled, created)
	}
	for n, level := range []store.Isolation{store.ReadCommitted, store.RepeatableRead, store.Serializable} {
		var changed sync.WaitGroup
		err := g.do(t.Context(), level, func(ctx context.Context, tx TX) error {
			if err := g.hooks.Send(ctx, tx, event("acme", "first")); err != nil {
				return err
			}
			wait := make(chan struct{})
			changed.Go(func() { must(t, change(n)); close(wait) })
			if g.db.Dialect() == sqlplane.PostgreSQL {
				<-wait // it waits for nothing of this transaction
			}
			return g.hooks.Send(ctx, tx, event("acme", "second"))
		})
		changed.Wait()
		if err != nil {
			t.Errorf("at %v: %v", level, err)
		}
	}
	if n := g.count(t, "select count(*) from once_webhook_event"); n != 6 {
		t.Errorf("%d events, want 6", n)
	}
}
