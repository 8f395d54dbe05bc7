package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestJoinAtSerializable: a Join at SERIALIZABLE looks for the record by a probe. Each thing
// that the probe can meet has its case.
func TestJoinAtSerializable(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, name string) {
		g := newTestDB(t, name)
		g.defaultLevel(t, "serializable")
		switch r := g.open(t, setup{}).(type) {
		case *rig[pgx.Tx]:
			joins(t, g, r)
		case *rig[*sql.Tx]:
			joins(t, g, r)
		default:
			t.Fatalf("%T", r)
		}
	})
}

// TestTheLookUpAtSerializableIsBounded locks the table of operations, as a migration might.
func TestTheLookUpAtSerializableIsBounded(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, name string) {
		g := newTestDB(t, name)
		s := g.open(t, setup{conns: 1})
		warm := operation("warm") // prepares what it needs
		warm.Isolation = store.Serializable
		if _, _, err := s.Do(t.Context(), warm, work{key: warm.Key, attempt: "warm"}); err != nil {
			t.Fatal(err)
		}
		for bound, timeouts := range map[string]store.Timeouts{"lock": {Lock: bounded}, "statement": {Statement: bounded}} {
			if err := waits(t, g, s, timeouts); err != nil {
				t.Fatalf("%s: %v. %s", bound, err, rerun(t))
			}
		}
	})
}

// bounded is so short that a test need not wait, and so long that a statement can be run.
const bounded = 200 * time.Millisecond

func waits(t *testing.T, g *testDB, s system, timeouts store.Timeouts) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience/3)
	defer cancel()
	lock, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Rollback() }()
	if _, err := lock.ExecContext(ctx, "lock table once_operation in access exclusive mode"); err != nil {
		return err
	}
	op := operation(once.NewKey())
	op.Isolation = store.Serializable
	blocked := op
	blocked.Timeouts = timeouts
	_, _, err = s.Do(ctx, blocked, work{key: op.Key, attempt: "blocked"})
	if ctx.Err() != nil || once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
		return fmt.Errorf("while the table was locked: %w", err)
	}
	if err := lock.Rollback(); err != nil {
		return err
	}
	if _, _, err = s.Do(ctx, op, work{key: op.Key, attempt: "free"}); err != nil {
		return err
	}
	state, err := g.state(ctx, op.Key)
	if err == nil && state != executed("free") {
		err = fmt.Errorf("the database has %+v", state)
	}
	return err
}

// joiner has transactions of its own.
type joiner[TX any] struct {
	*testDB

	r   *rig[TX]
	ctx context.Context //nolint:containedctx // of one test
}

func joins[TX any](t *testing.T, g *testDB, r *rig[TX]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j := joiner[TX]{g, r, ctx}
	for name, run := range map[string]func(key string) error{
		"a replay":                         j.replays,
		"in flight":                        j.inFlight,
		"done since the snapshot":          j.doneSince,
		"expired":                          j.expired,
		"a final failure":                  j.failure,
		"a handler that fails":             j.handlerFails,
		"too late, and there is no record": j.stale,
		"too late, but there is a record":  j.staleReplay,
	} {
		if err := run(once.NewKey()); err != nil {
			t.Errorf("%s: %v. %s", name, err, rerun(t))
		}
	}
}

func (j joiner[TX]) join(own ownTx[TX], op once.Operation, w work) (answer, bool, error) {
	w.key = op.Key
	return answered(once.Join(j.ctx, j.r.engine, own.tx, op, j.r.handler(w)))
}

// joined joins in a transaction that commits whatever comes of it: it must stay usable.
func (j joiner[TX]) joined(op once.Operation, w work) (got answer, replayed bool, err error) {
	own, err := j.r.begin(j.ctx)
	if err != nil {
		return got, false, err
	}
	got, replayed, err = j.join(own, op, w)
	if e := j.r.exec(j.ctx, own.tx, insertReceipt, op.Key+"-after", w.attempt); e != nil {
		return got, replayed, errors.Join(err, fmt.Errorf("the caller's transaction is not usable: %w", e), own.rollback(j.ctx))
	}
	if e := own.commit(j.ctx); e != nil {
		return got, replayed, errors.Join(err, fmt.Errorf("the caller's commit: %w", e))
	}
	return got, replayed, err
}

func (j joiner[TX]) holds(key string, want state) error {
	got, err := j.state(j.ctx, key)
	if err == nil && got != want {
		err = fmt.Errorf("the database has %+v, want %+v", got, want)
	}
	return err
}

func (j joiner[TX]) replays(key string) error {
	for i, attempt := range []string{"first", "second"} {
		got, replayed, err := j.joined(operation(key), work{attempt: attempt})
		if err != nil || got.Attempt != "first" || replayed != (i > 0) {
			return fmt.Errorf("%s: %+v, replayed: %t, %w", attempt, got, replayed, err)
		}
	}
	return j.holds(key, executed("first"))
}

// inFlight: without the claim, a Join does not wait for its holder.
func (j joiner[TX]) inFlight(key string) error {
	own, err := j.r.begin(j.ctx)
	if err != nil {
		return err
	}
	if _, _, err = j.join(own, operation(key), work{attempt: "first"}); err != nil {
		return err
	}
	second, err := j.r.begin(j.ctx)
	if err == nil {
		err = j.r.exec(j.ctx, second.tx, "set local lock_timeout = '1s'") // waiting is an error
	}
	if err != nil {
		return errors.Join(err, own.rollback(j.ctx))
	}
	_, _, err = j.join(second, operation(key), work{attempt: "second"})
	if once.CodeOf(err) != once.CodeInFlight {
		return errors.Join(fmt.Errorf("the second one was told: %w", err), second.rollback(j.ctx), own.rollback(j.ctx))
	}
	return errors.Join(second.commit(j.ctx), own.commit(j.ctx), j.holds(key, executed("first")))
}

// doneSince: the transaction can neither see the record nor write another one.
func (j joiner[TX]) doneSince(key string) error {
	own, err := j.r.begin(j.ctx)
	if err == nil {
		err = j.r.exec(j.ctx, own.tx, insertReceipt, key+"-before", "snapshot")
	}
	if err != nil {
		return err
	}
	if _, _, err = j.r.Do(j.ctx, operation(key), work{key: key, attempt: "first"}); err != nil {
		return err
	}
	runs := 0
	_, _, err = j.join(own, operation(key), work{attempt: "second", before: func() { runs++ }})
	if once.CodeOf(err) != once.CodeConflict || once.EffectOf(err) != once.EffectNotApplied || runs != 0 {
		return fmt.Errorf("%d runs, and it was told: %w", runs, err)
	}
	return errors.Join(own.rollback(j.ctx), j.holds(key, executed("first")))
}

func (j joiner[TX]) expired(key string) error {
	if _, _, err := j.r.Do(j.ctx, operation(key), work{key: key, attempt: "first"}); err != nil {
		return err
	}
	if _, err := j.db.ExecContext(j.ctx, "update once_operation set expires_at = now() - interval '1 second' where key = $1", key); err != nil {
		return err
	}
	got, replayed, err := j.joined(operation(key), work{attempt: "second"})
	if err != nil || replayed || got.Attempt != "second" {
		return fmt.Errorf("%+v, replayed: %t, %w", got, replayed, err)
	}
	return j.holds(key, state{Charges: 2, Entries: 2, Keys: 1, Attempts: "first,second"})
}

func (j joiner[TX]) failure(key string) error {
	for i, attempt := range []string{"first", "second"} {
		got, replayed, err := j.joined(operation(key), work{attempt: attempt, fails: true})
		if err != nil || got.Attempt != "first" || replayed != (i > 0) {
			return fmt.Errorf("%s: %+v, replayed: %t, %w", attempt, got, replayed, err)
		}
	}
	return j.holds(key, declined())
}

func (j joiner[TX]) handlerFails(key string) error {
	oops := errors.New("oops")
	_, _, err := j.joined(operation(key), work{attempt: "first", spoil: func() error { return oops }})
	if !errors.Is(err, oops) || once.EffectOf(err) != once.EffectNotApplied {
		return err
	}
	if _, replayed, err := j.joined(operation(key), work{attempt: "second"}); err != nil || replayed {
		return fmt.Errorf("afterwards: replayed: %t, %w", replayed, err)
	}
	return j.holds(key, executed("second"))
}

func (j joiner[TX]) stale(key string) error {
	op := operation(key)
	op.Attempt.FirstSent = time.Now().Add(-144 * time.Hour)
	if _, _, err := j.joined(op, work{attempt: "first"}); once.CodeOf(err) != once.CodeStale {
		return fmt.Errorf("it was told: %w", err)
	}
	return j.holds(key, state{})
}

func (j joiner[TX]) staleReplay(key string) error {
	op := operation(key)
	if _, _, err := j.joined(op, work{attempt: "first"}); err != nil {
		return err
	}
	op.Attempt.FirstSent = time.Now().Add(-144 * time.Hour)
	got, replayed, err := j.joined(op, work{attempt: "second"})
	if err != nil || !replayed || got.Attempt != "first" {
		return fmt.Errorf("%+v, replayed: %t, %w", got, replayed, err)
	}
	return j.holds(key, executed("first"))
}
