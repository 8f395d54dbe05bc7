package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/upkeep"
)

// running is a Change that claims id by a lease.
func running(key string) store.Change {
	return store.Change{ID: store.ID{Scope: "s", Key: key}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: []byte("0123456789abcdef")}, Lease: time.Hour}
}

func holdOf(c store.Change) store.Hold {
	return store.Hold{ID: c.ID, Fence: c.Next.Fence, Nonce: c.Next.Nonce}
}

func swap(t *testing.T, s *pgxstore.Store, c store.Change) {
	t.Helper()
	if _, err := s.Swap(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// TestAChangeInAnotherTransaction: a handler that has committed by itself and begun again has no
// part in the transaction that would write the record. Every kind of record finds that out.
func TestAChangeInAnotherTransaction(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	s := pgxstore.New(pool, pgxstore.Config{})
	finished := running("finished")
	finished.Next.State = store.StateDone
	held := running("held")
	swap(t, s, held)
	traced := finished
	traced.ID.Key, traced.Next.Trace = "traced", "00-1-1-01"
	taken := running("held")
	taken.Expect.Fence, taken.Next.Fence = 1, 2
	kept := taken
	kept.KeepRequest, kept.Next.Trace = true, ""
	late := kept
	late.Expect.Fence, late.Next.Fence = 7, 8
	for name, c := range map[string]store.Change{
		"kept": kept, "kept, of another owner": late, "done": finished, "done and traced": traced, "running": running("running"), "taken over": taken,
		"released":  {ID: held.ID, Expect: store.Expect{Fence: 1}},
		"only held": {Held: []store.Hold{holdOf(held)}},
	} {
		for _, claims := range []bool{true, false} {
			opts := store.BeginOptions{First: c.KeepRequest}
			if claims && c.Expect.Fence == 0 {
				opts.ID = c.ID
			}
			txn, _, err := s.Begin(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := txn.Tx().Conn().Exec(t.Context(), "commit; begin"); err != nil {
				t.Fatal(err)
			}
			if err := txn.Commit(t.Context(), c); store.KindOf(err) != store.KindEnded {
				t.Errorf("%s, claimed %t: %v, want %s", name, claims, err, store.KindEnded)
			}
		}
	}
	if n := count(t, pool, "select count(*) from once_operation where not (key = 'held' and fence = 1)"); n != 0 {
		t.Errorf("%d records are written", n)
	}
}

// TestASwapThatLosesIsTaken, whatever isolation the database has by default. At REPEATABLE READ
// a row that has just changed would be an error of serialization.
func TestASwapThatLosesIsTaken(t *testing.T) {
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			pool := openPool(t, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
				c.MaxConns = 8
			})
			s := pgxstore.New(pool, pgxstore.Config{})
			claimed := running("k")
			swap(t, s, claimed)
			ctx := t.Context()
			winner, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := winner.Exec(ctx, "update once_operation set fence = 2"); err != nil {
				t.Fatal(err)
			}
			c := running("k")
			c.Expect.Fence, c.Next.Fence = 1, 2
			begins := c // it has a BEGIN, since it might commit by itself
			begins.Writes = []store.Statement{{SQL: "do 'begin end'"}}
			lost, hold, late := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			go func() { _, err := s.Swap(ctx, c); lost <- err }()
			go func() { _, err := s.Swap(ctx, store.Change{Held: []store.Hold{holdOf(claimed)}}); hold <- err }()
			go func() { _, err := s.Swap(ctx, begins); late <- err }()
			waiting(t, pool, 3)
			if err := winner.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{<-lost, <-hold, <-late} {
				if store.KindOf(err) != store.KindTaken || err == nil {
					t.Errorf("%v, want %s", err, store.KindTaken)
				}
			}
		})
	}
}

// waiting returns when n sessions wait for a lock.
func waiting(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	patience := time.Now().Add(time.Minute)
	for count(t, pool, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") < n {
		if time.Now().After(patience) {
			t.Fatal("no caller waits")
		}
		<-time.After(time.Millisecond)
	}
}

// TestAnOlderSchema is said to be one.
func TestAnOlderSchema(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	ctx := t.Context()
	s := pgxstore.New(pool, pgxstore.Config{})
	c := running("k")
	swap(t, s, c)
	if _, err := pool.Exec(ctx, "alter table once_operation drop column trace"); err != nil {
		t.Fatal(err)
	}
	s = pgxstore.New(pool, pgxstore.Config{})
	_, read := s.Read(ctx, c.ID)
	_, _, begin := s.Begin(ctx, store.BeginOptions{ID: c.ID})
	other := running("other")
	_, swapped := s.Swap(ctx, other)
	_, _, unfinished := s.Unfinished(ctx, upkeep.Listing{Limit: 1})
	done := store.Change{ID: c.ID, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: c.Next.Nonce, Trace: "00-1-1-01"}}
	commit := func() error {
		txn, _, err := s.Begin(ctx, store.BeginOptions{ID: store.ID{Scope: "s", Key: "done"}, First: true})
		if err != nil {
			t.Fatal(err)
		}
		done.ID.Key = "done"
		return txn.Commit(ctx, done)
	}()
	for what, err := range map[string]error{"Check": s.Check(ctx), "Read": read, "Begin": begin, "Swap": swapped, "Unfinished": unfinished, "Commit": commit} {
		if !errors.Is(err, store.ErrNotMigrated) || store.KindOf(err) != store.KindUnavailable || !strings.HasSuffix(err.Error(), "Try: once migrate up, or pgxstore.Migrate") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestHeldIsLockedUntilTheCommit: a takeover, a release and a renewal wait for a change that demands
// that an operation is held.
func TestHeldIsLockedUntilTheCommit(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	ctx := t.Context()
	s := pgxstore.New(pool, pgxstore.Config{})
	c := running("k")
	swap(t, s, c)
	for name, next := range map[string]store.Record{"takeover": {State: store.StateRunning, Fence: 2, Nonce: []byte("n")}, "release": {}} {
		caller, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		join, _, err := s.Join(ctx, caller, store.BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := join.Commit(ctx, store.Change{Held: []store.Hold{holdOf(c)}}); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := s.Swap(ctx, store.Change{ID: c.ID, Expect: store.Expect{Fence: 1}, Next: next}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		waiting(t, pool, 1)
		if err := caller.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		_, err = s.Swap(ctx, store.Change{Held: []store.Hold{holdOf(c)}})
		if err == nil || store.KindOf(err) != store.KindTaken {
			t.Errorf("after the %s: %v", name, err)
		}
		rec, err := s.Read(ctx, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if rec.State != store.StateAbsent {
			swap(t, s, store.Change{ID: c.ID, Expect: store.Expect{Fence: rec.Fence}})
		}
		swap(t, s, c)
	}
}

// TestChangesThatHoldEachOther lock their rows in one order, so that none of them deadlocks.
func TestChangesThatHoldEachOther(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 8 })
	s := pgxstore.New(pool, pgxstore.Config{})
	const operations = 6
	var all []store.Change
	var holds []store.Hold
	for i := range operations {
		c := running(fmt.Sprint("k", i))
		swap(t, s, c)
		c.Expect.Fence = 1
		all, holds = append(all, c), append(holds, holdOf(c))
	}
	for i := range all {
		for j := range holds {
			if j != i {
				all[i].Held = append(all[i].Held, holds[(i+j)%operations])
			}
		}
	}
	var group sync.WaitGroup
	for _, c := range all {
		group.Go(func() {
			for range 30 {
				if _, err := s.Swap(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// TestAClaimWritesWhatItIsTold: a claimed operation can end in any state, and not only Done.
func TestAClaimWritesWhatItIsTold(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	s := pgxstore.New(pool, pgxstore.Config{})
	for _, batch := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			c := running(fmt.Sprint(batch, first))
			c.Next.RecoveryPoint, c.Next.Data, c.Next.Trace = "charged", []byte("d"), "00-1-1-01"
			c.Writes = []store.Statement{{SQL: "insert into charge values ($1, 1)", Args: []any{c.ID.Key}, Rows: 1}}
			txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: c.ID, Batch: batch, First: first})
			if err != nil {
				t.Fatal(err)
			}
			if err := txn.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			rec, err := s.Read(t.Context(), c.ID)
			if err != nil || rec.State != store.StateRunning || rec.RecoveryPoint != "charged" || string(rec.Data) != "d" || rec.Trace != c.Next.Trace {
				t.Errorf("batch %t, first %t: %+v, %v", batch, first, rec, err)
			}
			late := running("late")
			late.StaleAfter = time.Now().Add(-time.Hour)
			txn, _, err = s.Begin(t.Context(), store.BeginOptions{ID: late.ID, Batch: batch, First: first})
			if err != nil {
				t.Fatal(err)
			}
			if err := txn.Commit(t.Context(), late); store.KindOf(err) != store.KindStale {
				t.Errorf("batch %t, first %t: late: %v", batch, first, err)
			}
		}
	}
	if n := count(t, pool, "select count(*) from charge"); n != 4 {
		t.Errorf("%d effects", n)
	}
}

// TestABatchThatLosesDoesNotWait: a batch whose record is no ordinary one claims without waiting, too.
func TestABatchThatLosesDoesNotWait(t *testing.T) {
	t.Parallel()
	s := pgxstore.New(openPool(t), pgxstore.Config{})
	c := running("k")
	holder, _, err := s.Begin(t.Context(), store.BeginOptions{ID: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	batch, _, err := s.Begin(t.Context(), store.BeginOptions{ID: c.ID, Batch: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := batch.Commit(t.Context(), c); store.KindOf(err) != store.KindTaken {
		t.Errorf("%v, want %s", err, store.KindTaken)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWaitsOfBegin: the time for a connection of the pool is told apart.
func TestWaitsOfBegin(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	s := pgxstore.New(pool, pgxstore.Config{})
	for name, opts := range map[string]store.BeginOptions{"Begin": {}, "first attempt": {First: true}, "batch": {Batch: true}} {
		busy, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := pool.Stat().EmptyAcquireCount()
		var waits waits.Waits
		opts.ID, opts.Waits = store.ID{Scope: "s", Key: "k"}, &waits
		var group sync.WaitGroup
		group.Go(func() {
			txn, _, err := s.Begin(t.Context(), opts)
			if err != nil {
				t.Error(err)
				return
			}
			_ = txn.Rollback(context.WithoutCancel(t.Context()))
		})
		<-time.After(10 * time.Millisecond)
		busy.Release()
		group.Wait()
		if waited := pool.Stat().EmptyAcquireCount() > before; waited && waits.Acquire <= 0 || waits.Lock != 0 {
			t.Errorf("%s: %+v", name, waits)
		}
	}
}

// TestASwapWithAWriteThatCommits: such a write fails, and nothing of the swap is applied.
func TestASwapWithAWriteThatCommits(t *testing.T) {
	t.Parallel()
	pool := openPool(t)
	if _, err := pool.Exec(t.Context(), "create procedure commits_by_itself() language plpgsql as 'begin insert into charge values (''by itself'', 1); commit; end'"); err != nil {
		t.Fatal(err)
	}
	c := running("k")
	c.Writes = []store.Statement{{SQL: "call commits_by_itself()"}, {SQL: "update charge set amount = 1 / (amount - 1) where id = 'by itself'"}}
	if _, err := pgxstore.New(pool, pgxstore.Config{}).Swap(t.Context(), c); err == nil || store.KindOf(err) == store.KindLost {
		t.Errorf("%v, want an error that says what is wrong", err)
	}
	if n := count(t, pool, "select (select count(*) from once_operation) + (select count(*) from charge where id = 'by itself')"); n != 0 {
		t.Errorf("%d rows are written", n)
	}
}
