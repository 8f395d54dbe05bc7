package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// one is a saga of one step.
func one[In any](name string, step interface {
	saga.Step
	Do(ctx saga.Context, in In) (string, error)
},
) *saga.Definition[In, string] {
	return saga.New(name, func(ctx saga.Context, in In) (string, error) { return step.Do(ctx, in) }, step)
}

// TestAWakeThatLasts: a transaction that wakes a saga which is due anyway, and does not end, keeps neither that one nor others waiting. (On SQLite it
// ends: a transaction that has written is alone.)
func TestAWakeThatLasts(t *testing.T) {
	testenv.Both(t)
	on(t, wakeThatLasts[pgx.Tx], wakeThatLasts[*sql.Tx])
}

func wakeThatLasts[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	d := one("order", saga.Call("work", func(context.Context, string, string) (string, error) { return "", nil }).SafeToRepeat())
	r := s.runner(s.db, d)
	s.startIn(t, r, d, idOf("woken"))
	s.startIn(t, r, d, idOf("other"))
	tx, commit, err := s.begin(t.Context())
	must(t, errors.Join(err, r.Wake(t.Context(), tx, idOf("woken"))))
	if s.Kind == harness.SQLite {
		must(t, commit())
	}
	stop := runs(t, r)
	s.until(t, r, "woken", saga.StateCompleted)
	s.until(t, r, "other", saga.StateCompleted)
	if s.Kind != harness.SQLite {
		must(t, commit())
	}
	s.untilNoRow(t)
	stop()
}

// untilNoRow waits until the table of sagas that wait is empty.
func (s system[TX]) untilNoRow(t *testing.T) {
	t.Helper()
	harness.Until(t, func() error {
		if n := s.rows(t); n != 0 {
			return fmt.Errorf("%d rows are left of sagas that wait", n)
		}
		return nil
	})
}

// TestAWakeBeforeTheFirstWait: a saga is woken while its starter runs it for the first time, and nothing is stored of it but its start. It does not wait
// then.
func TestAWakeBeforeTheFirstWait(t *testing.T) {
	testenv.Both(t)
	on(t, wakeBeforeWait[pgx.Tx], wakeBeforeWait[*sql.Tx])
}

func wakeBeforeWait[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	var r *saga.Runner[TX]
	first := true
	approved := saga.Batch("approved", func(*once.Batch, string) (string, error) {
		if first {
			first = false
			s.approve(t, r, "a") // behind the look of the step
			return "", saga.Again(time.Hour)
		}
		return "yes", nil
	})
	d := one("approval", approved)
	r = s.runner(s.db, d)
	h := s.startIn(t, r, d, idOf("a"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if v, err := h.Result(ctx); v != "yes" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	s.untilNoRow(t)
}

// TestWokenSagasTakeNoRoom: a node that runs sagas which were woken meanwhile takes others of their tenant, as far as it has room.
func TestWokenSagasTakeNoRoom(t *testing.T) {
	testenv.Both(t)
	on(t, wokenRun[pgx.Tx], wokenRun[*sql.Tx])
}

func wokenRun[TX any](t *testing.T, s system[TX]) {
	inside, other := make(chan struct{}), make(chan struct{})
	d := one("order", saga.Call("work", func(_ context.Context, _, key string) (string, error) {
		if key == "other" {
			close(other)
			return "", nil
		}
		close(inside)
		select {
		case <-other:
			return "", nil
		case <-time.After(patience / 3):
			t.Error("another saga is not taken beside one that was woken while it runs")
			return "", nil
		}
	}).SafeToRepeat())
	r := saga.NewRunner(s.db, saga.Config{TTL: patience, StepTimeout: patience, Concurrency: 2, Every: 20 * time.Millisecond}, d)
	s.startIn(t, r, d, idOf("woken"))
	stop := runs(t, r)
	<-inside
	s.approve(t, r, "woken")
	s.startIn(t, r, d, idOf("other"))
	s.until(t, r, "woken", saga.StateCompleted)
	s.until(t, r, "other", saga.StateCompleted)
	s.untilNoRow(t)
	stop()
}

// hooked is a store that calls read behind each look at a record.
type hooked[TX any] struct {
	harness.Store[TX]

	read func()
}

func (h *hooked[TX]) Unwrap() any { return h.Store }

func (h *hooked[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := h.Store.Read(ctx, id)
	h.read()
	return rec, err
}

// TestADecisionBesideALook: a saga is stuck that was woken before, and a person decides about it while a node that has looked at it lets go of its row: the
// node goes on with what was decided.
func TestADecisionBesideALook(t *testing.T) {
	testenv.Both(t)
	on(t, decisionBesideLook[pgx.Tx], decisionBesideLook[*sql.Tx])
}

func decisionBesideLook[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	var r *saga.Runner[TX]
	d := one("order", saga.Call("work", func(_ context.Context, _, key string) (string, error) {
		s.approve(t, r, key)
		return "", errors.New("timeout")
	}))
	r = s.runner(s.db, d)
	if _, err := saga.Do(t.Context(), r, d, idOf("a"), "a"); !errors.Is(err, saga.ErrStuck) || s.rows(t) != 1 {
		t.Fatalf("%v, %d rows", err, s.rows(t))
	}
	var looked atomic.Bool
	decides := func() {
		if looked.Swap(true) {
			return
		}
		_, err := saga.Decide(t.Context(), s.db, idOf("a"), saga.Decision{Action: saga.ActionForce, Step: "work", Value: []byte(`"done"`)})
		must(t, err)
	}
	stop := runs(t, s.runner(&hooked[TX]{s.db, decides}, d))
	s.until(t, r, "a", saga.StateCompleted)
	stop()
}
