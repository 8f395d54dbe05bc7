package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// TestTrailOfSteps: the phases of leased work, the steps of a saga and their undos, and a batch name the events that they have added, and
// their events name them. What was rolled back names nothing.
func TestTrailOfSteps(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		d := harness.Migrated(t, kind, sets)
		if kind == harness.Pgx {
			s, _ := harness.OpenPgx(t, d)
			followSteps(t, s)
			return
		}
		s, _ := harness.OpenSQL(t, d)
		followSteps(t, s)
	})
}

func followSteps[TX any](t *testing.T, s harness.Store[TX]) {
	t.Helper()
	here, g := pagesOf(t, s)
	box := outbox.New(s, outbox.Config{})
	add := func(ctx context.Context, tx TX, topic string) error {
		return box.Add(ctx, tx, message.Message{Topic: topic, Type: "t"})
	}

	// Leased work.
	jobs := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard})
	_, err := once.Do(t.Context(), jobs, once.Operation{Scope: "jobs", Key: "lease"}, func(ctx context.Context, run *lease.Run) (int, error) {
		phase := func(name string) error {
			_, err := lease.InTx(ctx, run, s, name, func(ctx context.Context, tx TX) (int, error) { return 1, add(ctx, tx, name) })
			return err
		}
		if err := phase("reserve"); err != nil {
			return 0, err
		}
		return 1, phase("ship")
	})
	harness.Must(t, err)
	g.isTrail(t, here, store.ID{Scope: "jobs", Key: "lease"}, "reserve of reserve, ship of ship")

	// A saga that turns.
	book := saga.Tx("book", func(ctx context.Context, tx TX, _ int) (int, error) { return 1, add(ctx, tx, "booked") }).
		Undo(func(ctx context.Context, tx TX, _, _ int) error { return add(ctx, tx, "cancelled") })
	refuse := saga.Tx("pay", func(context.Context, TX, int) (int, error) { return 0, &once.Failure{Code: "declined"} })
	trip := saga.New("trip", func(ctx saga.Context, in int) (int, error) {
		if _, err := book.Do(ctx, in); err != nil {
			return 0, err
		}
		return refuse.Do(ctx, in)
	}, book, refuse)
	runner := saga.NewRunner(s, saga.Config{Observer: saga.Observers()}, trip)
	if _, err := saga.Do(t.Context(), runner, trip, saga.ID{Tenant: "acme", Key: "trip"}, 1); err == nil {
		t.Error("the saga has not turned")
	}
	id := store.ID{Scope: "saga/acme", Key: "trip"}
	trail := g.isTrail(t, here, id, "booked of book, cancelled of book")
	if len(trail.Steps) != 2 || trail.Steps[0].State != "undone" || trail.Steps[1].State != "failed" {
		t.Errorf("steps: %+v", trail.Steps)
	}
	if p := g.get(t, "ada", "operation?id="+g.operationLink(t, "operations?scope=saga")); p.status != http.StatusOK || !strings.Contains(p.body, "step book is undone") {
		t.Errorf("%d: %s", p.status, p.body)
	}

	// A batch, and a refusal whose writes are rolled back.
	engine := once.New(s, once.Config{Observer: once.Discard})
	_, err = once.DoBatch(t.Context(), engine, once.Operation{Scope: "jobs", Key: "batch"}, func(b *once.Batch) (int, error) {
		return 1, box.Declare(t.Context(), b, message.Message{Topic: "declared", Type: "t"})
	})
	harness.Must(t, err)
	g.isTrail(t, here, store.ID{Scope: "jobs", Key: "batch"}, "declared of ")
	_, err = once.Do(t.Context(), engine, once.Operation{Scope: "jobs", Key: "refused"}, func(ctx context.Context, tx TX) (int, error) {
		harness.Must(t, add(ctx, tx, "never"))
		return 0, &once.Failure{Code: "no"}
	})
	if err == nil || g.count(t, "select count(*) from once_outbox where topic = 'never'") > 0 {
		t.Errorf("the refusal: %v", err)
	}
	g.isTrail(t, here, store.ID{Scope: "jobs", Key: "refused"}, "")
}

// isTrail checks the topics of the events of an operation and the steps that have added them, and that the messages name the operation.
func (g *fixture) isTrail(t *testing.T, o *operate.Operator, id store.ID, want string) operate.Trail {
	t.Helper()
	trail, err := o.Trail(t.Context(), id)
	harness.Must(t, err)
	var got []string
	for _, e := range trail.Events {
		got = append(got, e.Topic+" of "+e.Step)
		if e.Operation == nil || e.Operation.Scope != id.Scope || e.Operation.Key != id.Key {
			t.Errorf("an event of %v names %+v", id, e.Operation)
		}
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("%v has caused %q, want %q", id, got, want)
	}
	return trail
}
