package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// wakes wakes a saga in a transaction, which commit ends.
func (s system[TX]) wakes(ctx context.Context, r *saga.Runner[TX], key string) (commit func() error, err error) {
	tx, commit, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	_, err = s.db.On(tx).Exec(ctx, s.insert("approval "+key, "yes"))
	return sync.OnceValue(commit), errors.Join(err, r.Wake(ctx, tx, idOf(key)))
}

// ofOneStep is a saga of one step: the one with the key "woken" waits for an hour until it is given what it waits for.
func (s system[TX]) ofOneStep(asks func()) *saga.Definition[string, string] {
	approved := saga.Tx("approved", func(ctx context.Context, tx TX, key string) (string, error) {
		given, err := s.given(ctx, tx, key)
		if err != nil || key != "woken" {
			return "", err
		}
		if asks(); !given {
			err = saga.Again(time.Hour)
		}
		return "", err
	})
	return saga.New("approval", func(ctx saga.Context, key string) (string, error) { return approved.Do(ctx, key) }, approved)
}

// TestOpenWakeStopsNoOther: while the transaction that wakes a saga is open, a runner takes that saga, which is due by its time, and the others, and a
// starter runs its saga. The commit still wakes the saga, and leaves nothing in the table of those that wait.
func TestOpenWakeStopsNoOther(t *testing.T) {
	testenv.Both(t)
	onKinds(t, []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL}, openWake[pgx.Tx], openWake[*sql.Tx])
}

func openWake[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	var asked atomic.Int64
	d := s.ofOneStep(func() { asked.Add(1) })
	r := s.runner(s.db, d)
	stop := runs(t, r)
	s.startIn(t, r, d, idOf("woken"))
	s.until(t, r, "woken", "waiting")
	harness.Until(t, func() error { // it may not have been asked yet
		if asked.Load() == 0 || s.due(t) > 0 {
			return errors.New("the saga has not been asked")
		}
		return nil
	})
	stop()
	harness.Exec(t, s.db, "update once_saga_due set due_at = AGO(?)", int64(1_000_000))
	r = s.runner(s.db, d)
	commitWoken, err := s.wakes(t.Context(), r, "woken")
	must(t, err)
	defer commitWoken() //nolint:errcheck // of a test that has failed

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h := s.startIn(t, r, d, idOf("started"))
	commitStarted, err := s.wakes(t.Context(), r, "started")
	must(t, err)
	defer commitStarted() //nolint:errcheck // likewise
	if _, err := h.Result(ctx); err != nil {
		t.Errorf("the starter waits for the transaction that wakes its saga: %v", err)
	}

	before := asked.Load()
	s.startIn(t, r, d, idOf("healthy"))
	stop = runs(t, r)
	s.until(t, r, "healthy", saga.StateCompleted)
	harness.Until(t, func() error {
		if asked.Load() == before {
			return errors.New("the saga is not taken while a transaction that wakes it is open")
		}
		return nil
	})
	must(t, errors.Join(commitWoken(), commitStarted()))
	s.until(t, r, "woken", saga.StateCompleted)
	harness.Until(t, func() error {
		if n := s.rows(t); n > 0 {
			return fmt.Errorf("%d rows are left of sagas that wait", n)
		}
		return nil
	})
	stop()
}

// due counts the sagas that are due.
func (s system[TX]) due(t *testing.T) int {
	t.Helper()
	return harness.Count(t, s.db, "select count(*) from once_saga_due where due_at <= NOW")
}

// TestWakeInTheFirstRun: a saga is woken while its starter runs it for the first time. Its first wait ends at once.
func TestWakeInTheFirstRun(t *testing.T) {
	testenv.Both(t)
	on(t, wakeInTheFirstRun[pgx.Tx], wakeInTheFirstRun[*sql.Tx])
}

func wakeInTheFirstRun[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	var r *saga.Runner[TX]
	var asked atomic.Int64
	d := s.ofOneStep(func() {
		if asked.Add(1) > 1 {
			return
		}
		if commit, err := s.wakes(t.Context(), r, "woken"); err != nil {
			t.Error(err)
		} else if err := commit(); err != nil {
			t.Error(err)
		}
	})
	r = s.runner(s.db, d)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.startIn(t, r, d, idOf("woken")).Result(ctx); err != nil {
		t.Errorf("the wake is lost: %v, asked %d times", err, asked.Load())
	}
}

// TestWokenSagaKeepsNoOtherWaiting: a saga that was woken while a node works on it is the oldest that is due, and takes no room from another one; nor
// is it counted as due all the while.
func TestWokenSagaKeepsNoOtherWaiting(t *testing.T) {
	testenv.Both(t)
	on(t, wokenAndRunning[pgx.Tx], wokenAndRunning[*sql.Tx])
}

func wokenAndRunning[TX any](t *testing.T, s system[TX]) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	work := saga.Call("work", func(_ context.Context, _, key string) (string, error) {
		if key == "slow" {
			close(inside)
			<-goOn
		}
		return "", nil
	}).SafeToRepeat()
	d := saga.New("work", func(ctx saga.Context, key string) (string, error) { return work.Do(ctx, key) }, work)
	r := saga.NewRunner(s.db, saga.Config{TTL: patience, Concurrency: 2, Every: 20 * time.Millisecond, Observer: saga.Log(slog.New(slog.DiscardHandler))}, d)
	s.startIn(t, r, d, idOf("slow"))
	stop := runs(t, r)
	<-inside
	s.approve(t, r, "slow")
	s.startIn(t, r, d, idOf("healthy"))
	s.until(t, r, "healthy", saga.StateCompleted)
	harness.Until(t, func() error {
		if n := s.due(t); n > 0 {
			return fmt.Errorf("%d sagas are due, and are run", n)
		}
		return nil
	})
	close(goOn)
	s.until(t, r, "slow", saga.StateCompleted)
	stop()
}

// behindRead is a store that calls hook once, behind a Read that finds a saga stuck.
type behindRead[TX any] struct {
	harness.Store[TX]

	hook atomic.Pointer[func()]
}

func (b *behindRead[TX]) Unwrap() any { return b.Store }

func (b *behindRead[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := b.Store.Read(ctx, id)
	if err == nil && rec.State == store.StateUnknown {
		if hook := b.hook.Swap(nil); hook != nil {
			(*hook)()
		}
	}
	return rec, err
}

// TestDecisionBehindALook: a saga was woken and then got stuck. A person decides about it after a runner has read that it is stuck, and before that
// runner deletes its row: the saga goes on.
func TestDecisionBehindALook(t *testing.T) {
	testenv.Both(t)
	on(t, decisionBehindALook[pgx.Tx], decisionBehindALook[*sql.Tx])
}

func decisionBehindALook[TX any](t *testing.T, s system[TX]) {
	s.ttl = patience
	var r *saga.Runner[TX]
	work := saga.Call("work", func(_ context.Context, _, key string) (string, error) {
		s.approve(t, r, key)
		return "", errors.New("timeout")
	})
	d := saga.New("work", func(ctx saga.Context, key string) (string, error) { return work.Do(ctx, key) }, work)
	r = s.runner(s.db, d)
	if _, err := saga.Do(t.Context(), r, d, idOf("a"), "a"); !errors.Is(err, saga.ErrStuck) || s.rows(t) != 1 {
		t.Fatalf("vacuous: %v, %d rows", err, s.rows(t))
	}
	decided := make(chan error, 1)
	decide := func() {
		_, err := saga.Decide(t.Context(), s.db, idOf("a"), saga.Decision{Action: saga.ActionForce, Step: "work", Value: []byte(`"x"`)})
		decided <- err
	}
	db := &behindRead[TX]{Store: s.db}
	db.hook.Store(&decide)
	node := s.runner(db, d)
	defer runs(t, node)()
	must(t, <-decided)
	s.until(t, r, "a", saga.StateCompleted)
}
