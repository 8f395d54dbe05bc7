package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/storetest"
)

// flow is a way in which an operation adds two messages, whose type is its key.
type flow[TX any] struct {
	name string
	call func(ctx context.Context, g *fixture[TX], e *once.Engine[TX], op once.Operation) error
}

func flows[TX any]() []flow[TX] {
	add := func(ctx context.Context, g *fixture[TX], tx TX, key string) error {
		if err := g.box.Add(ctx, tx, event("b", "k", key)); err != nil {
			return err
		}
		if err := g.charge(ctx, tx, key); err != nil {
			return err
		}
		return g.box.Add(ctx, tx, event("a", "", key))
	}
	do := func(ctx context.Context, g *fixture[TX], e *once.Engine[TX], op once.Operation) error {
		_, err := once.Do(ctx, e, op, func(ctx context.Context, tx TX) (string, error) { return "", add(ctx, g, tx, op.Key) })
		return err
	}
	return []flow[TX]{
		{"Do", do},
		{"first attempt", func(ctx context.Context, g *fixture[TX], e *once.Engine[TX], op once.Operation) error {
			op.Attempt.Number = 1
			return do(ctx, g, e, op)
		}},
		{"Join", func(ctx context.Context, g *fixture[TX], e *once.Engine[TX], op once.Operation) error {
			_, err := once.Do(ctx, e, op, func(ctx context.Context, tx TX) (string, error) {
				r, err := once.Join(ctx, e, tx, once.Operation{Scope: "inner", Key: op.Key}, func(ctx context.Context, tx TX) (string, error) {
					return "", add(ctx, g, tx, op.Key)
				})
				return r.Value, err
			})
			return err
		}},
		{"DoBatch", func(ctx context.Context, g *fixture[TX], e *once.Engine[TX], op once.Operation) error {
			_, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (string, error) {
				b.Exec(g.text("insert into charge (id) values (?)").SQL, op.Key)
				return "", g.box.Declare(ctx, b, event("b", "k", op.Key), event("a", "", op.Key))
			})
			return err
		}},
	}
}

// judge compares what a caller was told with the database, asks the same operation again, and then
// expects it to have added its messages once.
func (g *fixture[TX]) judge(t *testing.T, f flow[TX], e *once.Engine[TX], op once.Operation, told error, says string) {
	t.Helper()
	added := func() int { return g.count(t, "select count(*) from once_outbox where event_type = ?", op.Key) }
	charged := func() int { return g.count(t, "select count(*) from charge where id = ?", op.Key) }
	// One statement, because a transaction whose outcome the caller does not know may commit between two.
	lacks := g.count(t, "select 2 * (select count(*) from charge where id = ?) - (select count(*) from once_outbox where event_type = ?)", op.Key, op.Key)
	messages := added()
	switch effect := once.EffectOf(told); {
	case lacks != 0:
		t.Errorf("%s: %d messages are missing", says, lacks)
	case told == nil && messages != 2, effect == once.EffectNotApplied && messages != 0:
		t.Errorf("%s: %d messages after %v", says, messages, told)
	}
	op.Wait = time.Minute
	if err := f.call(t.Context(), g, e, op); err != nil {
		t.Errorf("%s: again: %v", says, err)
	}
	if messages, charges := added(), charged(); messages != 2 || charges != 1 {
		t.Errorf("%s: in the end %d messages and %d charges", says, messages, charges)
	}
}

// TestEveryStoreCallFails: the N-th call of the store fails, N = 1, 2, ... until an operation survives.
func TestEveryStoreCallFails(t *testing.T) {
	testenv.Prove(t)
	on(t, testEveryStoreCallFails[pgx.Tx], testEveryStoreCallFails[*sql.Tx])
}

func testEveryStoreCallFails[TX any](t *testing.T, g *fixture[TX]) {
	struck, operations := 0, 0
	for _, f := range flows[TX]() {
		for n := 1; ; n++ {
			op := once.Operation{Scope: "s", Key: once.NewKey()}
			faults := storetest.NewFaults[TX](g.store)
			faults.Arm(storetest.Plan{Nth: []int{n}})
			err := f.call(t.Context(), g, once.New[TX](faults, once.Config{Observer: once.Discard}), op)
			hits := faults.Heal()
			g.judge(t, f, g.engine, op, err, fmt.Sprintf("%s, %q", f.name, hits))
			operations++
			if len(hits) == 0 {
				break
			}
			struck++
		}
	}
	g.wantSequence(t, "b", "k", operations)
	if struck < 20 {
		t.Errorf("vacuous: %d calls have failed", struck)
	}
}

// TestEveryWriteIsCut: the connection breaks before the N-th write to its socket, or before the answer to
// it is read, N = 1, 2, ... until an operation survives.
func TestEveryWriteIsCut(t *testing.T) {
	testenv.Core(t)
	t.Run(harness.Pgx, func(t *testing.T) {
		t.Parallel()
		var wire faultnet.Wire
		testEveryWriteIsCut(t, newPgx(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.DialFunc = 2, wire.DialContext }), &wire)
	})
	for _, kind := range []string{harness.Postgres, harness.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var wire faultnet.Wire
			s, db := harness.OpenDialed(t, migrated(t, kind), wire.DialContext)
			testEveryWriteIsCut(t, sqlFixture(kind, s, db), &wire)
		})
	}
}

func testEveryWriteIsCut[TX any](t *testing.T, g *fixture[TX], wire *faultnet.Wire) {
	struck, operations := 0, 0
	for _, f := range flows[TX]() {
		for _, point := range []struct {
			name string
			cut  func(n int64, call func(*faultnet.Conn))
		}{{"before write", wire.BeforeWrite}, {"before read", wire.BeforeRead}} {
			for n := int64(1); ; n++ {
				must(t, f.call(t.Context(), g, g.engine, once.Operation{Scope: "s", Key: once.NewKey()})) // prepares on a new connection
				op := once.Operation{Scope: "s", Key: once.NewKey()}
				wire.Reset()
				cut := false
				point.cut(n, func(c *faultnet.Conn) { cut = true; _ = c.Close() })
				err := f.call(t.Context(), g, g.engine, op)
				wire.Reset()
				g.judge(t, f, g.engine, op, err, fmt.Sprintf("%s, cut %s %d", f.name, point.name, n))
				operations += 2
				if !cut {
					break
				}
				struck++
			}
		}
	}
	g.wantSequence(t, "b", "k", operations)
	if struck < 10 {
		t.Errorf("vacuous: cut %d times", struck)
	}
}

// TestRoundTripsOfAdd: with pgx, messages cost no round trip, on a connection that knows the statements.
func TestRoundTripsOfAdd(t *testing.T) {
	t.Parallel()
	var wire faultnet.Wire
	g := newPgx(t, func(c *pgxpool.Config) {
		c.MaxConns, c.ConnConfig.DialFunc = 1, wire.DialContext
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a slow machine makes a connection look idle
	})
	add := func(n int) func(op once.Operation) error {
		return func(op once.Operation) error {
			_, err := once.Do(t.Context(), g.engine, op, func(ctx context.Context, tx pgx.Tx) (string, error) {
				for i := range n {
					if err := g.box.Add(ctx, tx, event("a", fmt.Sprint(i%2), "t"), event("a", "", "t")); err != nil {
						return "", err
					}
				}
				return "", g.charge(ctx, tx, op.Key)
			})
			return err
		}
	}
	batch := func(n int) func(op once.Operation) error {
		return func(op once.Operation) error {
			_, err := once.DoBatch(t.Context(), g.engine, op, func(b *once.Batch) (string, error) {
				b.Exec("insert into charge (id) values ($1)", op.Key)
				return "", g.box.Declare(t.Context(), b, []message.Message{event("a", "k", "t"), event("a", "", "t")}[:n]...)
			})
			return err
		}
	}
	trips := func(first bool, call func(op once.Operation) error) (n int64) {
		for range 3 { // the first times prepare
			before := wire.Counts().RoundTrips
			must(t, call(once.Operation{Scope: "s", Key: once.NewKey(), Attempt: attempt(first)}))
			_ = g.count(t, "select 1") // waits until the connection is free again
			n = wire.Counts().RoundTrips - before
		}
		return n
	}
	for _, c := range []struct {
		name       string
		first      bool
		with, bare func(op once.Operation) error
	}{{"Do", false, add(3), add(0)}, {"first attempt", true, add(3), add(0)}, {"DoBatch", false, batch(2), batch(0)}} {
		if with, bare := trips(c.first, c.with), trips(c.first, c.bare); with != bare {
			t.Errorf("%s: %d round trips with messages, %d without", c.name, with, bare)
		}
	}
}

// TestErrorOfAnAddIsThatOfTheCommit on pgxstore, where messages are sent with it.
func TestErrorOfAnAddIsThatOfTheCommit(t *testing.T) {
	t.Parallel()
	g := newPgx(t)
	g.exec(t, "alter table once_outbox add constraint no check (topic <> 'refused')")
	err := g.do(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		must(t, g.charge(ctx, tx, "x"))
		return g.box.Add(ctx, tx, event("refused", "k", "t"))
	})
	if once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "check constraint") {
		t.Errorf("%v", err)
	}
	if n := g.count(t, "select count(*) from charge"); n != 0 {
		t.Errorf("%d charges", n)
	}
}

// attempt is the first attempt of an operation, or one that says nothing.
func attempt(first bool) (a once.Attempt) {
	if first {
		a.Number = 1
	}
	return a
}
