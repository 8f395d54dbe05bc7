package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// hasty is a store that forgets soon.
type hasty[TX any] struct {
	store.Store[TX]
	retain time.Duration
}

func (s hasty[TX]) Unwrap() any { return s.Store }

func (s hasty[TX]) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	txn, rec, err := s.Store.Begin(ctx, ask)
	if txn != nil {
		txn = hastyTxn[TX]{txn, s.retain}
	}
	return txn, rec, err
}

type hastyTxn[TX any] struct {
	store.Transaction[TX]
	retain time.Duration
}

func (t hastyTxn[TX]) Unwrap() any { return t.Transaction }

func (t hastyTxn[TX]) Commit(ctx context.Context, c store.Change) error {
	c.Retain = t.retain
	return t.Transaction.Commit(ctx, c)
}

// TestSweepUnderFire lets requests go on while everything that they store expires at
// once and three sweepers, one of which archives, remove it. What a caller is told is
// true all the same: an execution is one effect, and a replay tells of one.
func TestSweepUnderFire(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range []string{harness.Pgx, harness.Postgres, harness.SQLite, harness.MariaDB, harness.MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, name)
			retain := 5 * time.Millisecond
			err := underFire(t, newTestDB(t, name), retain)
			for ; err != nil && retain < time.Second; err = underFire(t, newTestDB(t, name), retain) { // a slow machine needs more to give a replay in time
				retain *= 4
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// underFire returns an error if a case that the test needs did not occur.
func underFire(t *testing.T, g *testDB, retain time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
	defer cancel()
	const keys, workers = 12, 6
	requests := scale(120, 3000)
	if g.Kind == harness.SQLite { // whose writers follow each other, sweepers included
		requests = scale(20, 500)
	}
	var executed, replayed atomic.Int64
	var swept [3]int
	var mu sync.Mutex
	attempts, kept := map[string]bool{}, map[string]bool{}
	open := func() system { return g.open(t, setup{conns: 4, retain: retain}) }
	var requestsDone, sweeps sync.WaitGroup
	over := make(chan struct{})
	for i := range swept {
		s := open()
		req := upkeep.Sweep{Limit: 1 + 4*i}
		if i == 2 {
			req.Archive = func(_ context.Context, rows []upkeep.Expired) error {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range rows {
					kept[string(e.Nonce)] = true
				}
				return nil
			}
		}
		sweeps.Go(func() {
			for ended := false; !ended; {
				select {
				case <-over:
					ended = true // once more
				default:
				}
				got, err := s.Sweep(ctx, req)
				if err != nil {
					t.Errorf("sweeper %d: %v. %s", i, err, rerun(t))
					return
				}
				swept[i] += got.Rows
			}
		})
	}
	for w := range workers {
		s := open()
		r := rand.New(rand.NewPCG(seed(), uint64(w)))
		requestsDone.Go(func() {
			for n := range requests {
				op := operation(fmt.Sprintf("fire-%d", r.IntN(keys)))
				op.Wait = patience
				got, again, err := s.Do(ctx, op, work{key: op.Key, attempt: fmt.Sprintf("w%d-%d", w, n)})
				if err != nil {
					t.Errorf("request %d of worker %d: %v. %s", n, w, err, rerun(t))
					return
				}
				mu.Lock()
				attempts[got.Attempt] = true
				mu.Unlock()
				if again {
					replayed.Add(1)
				} else {
					executed.Add(1)
				}
			}
		})
	}
	requestsDone.Wait()
	close(over)
	sweeps.Wait()
	if t.Failed() {
		return nil
	}
	var charges, distinct int64
	if err := g.db.QueryRowContext(ctx, "select count(*), count(distinct attempt) from charge").Scan(&charges, &distinct); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d executed, %d replayed, %v swept, %d of them kept", g.name, executed.Load(), replayed.Load(), swept, len(kept))
	if charges != executed.Load() || distinct != charges || int64(len(attempts)) != charges {
		t.Errorf("%d effects of %d attempts for %d executions that callers know of, whose answers name %d. %s", charges, distinct, executed.Load(), len(attempts), rerun(t))
	}
	// Which sweeper comes first is chance, where one is at work at a time.
	if swept[2] > len(kept) {
		t.Errorf("deleted and not kept: %v swept, %d kept. %s", swept, len(kept), rerun(t))
	}
	if executed.Load() <= keys || replayed.Load() == 0 || swept[0]+swept[1] == 0 || len(kept) == 0 {
		return fmt.Errorf("vacuous: %d executed, %d replayed, %v swept, %d kept. %s", executed.Load(), replayed.Load(), swept, len(kept), rerun(t))
	}
	return nil
}

// TestSweepLostCommit loses a sweep's commit, or its answer: what is deleted was kept,
// and what was kept and is not deleted goes with the next sweep.
func TestSweepLostCommit(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range []string{harness.Pgx, harness.Postgres} {
		for _, applied := range []bool{false, true} {
			for _, keeps := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/applied=%v/keeps=%v", name, applied, keeps), func(t *testing.T) {
					t.Parallel()
					sweepLost(t, newCutter(t, name), applied, keeps)
				})
			}
		}
	}
}

func sweepLost(t *testing.T, c *cutter, applied, keeps bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := c.open(t, setup{dsn: c.dsn, dial: c.proxy.DialContext, conns: 1, retain: time.Millisecond})
	const rows = 5
	for i := range rows {
		op := operation(fmt.Sprintf("lost-%d", i))
		if _, _, err := s.Do(ctx, op, work{key: op.Key, attempt: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.until(ctx, "select not exists (select from once_operation where expires_at > now())"); err != nil {
		t.Fatal(err)
	}
	kept := map[store.ID]int{}
	req := upkeep.Sweep{Limit: 100}
	if keeps {
		req.Archive = func(_ context.Context, rows []upkeep.Expired) error {
			for _, e := range rows {
				kept[e.ID]++
			}
			return nil
		}
	}
	end := committing(c.Kind)
	if c.Kind == harness.Pgx && keeps { // here it is pgx that commits
		end = strings.ToLower(end)
	}
	fault := faultnet.CutBefore(end)
	if applied {
		fault = faultnet.SwallowAnswer(end, ready(c.Kind))
	}
	trigger := c.proxy.Arm(fault)
	swept, err := s.Sweep(ctx, req)
	if store.KindOf(err) != store.KindLost || swept.Rows != 0 {
		t.Errorf("a sweep whose commit was lost: %+v, %v", swept, err)
	}
	select {
	case <-trigger.Done():
	case <-ctx.Done():
		t.Fatal("vacuous: the fault has not struck:", errors.Join(ctx.Err(), err))
	}
	left := rows
	if applied {
		left = 0
	}
	if err := c.until(ctx, fmt.Sprintf("select count(*) = %d from once_operation", left)); err != nil {
		t.Error(err)
	}
	sum := 0
	for sum < left && ctx.Err() == nil { // until the server has seen the end of the lost connection
		swept, err := s.Sweep(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		sum += swept.Rows
	}
	if sum != left || keeps && len(kept) != rows {
		t.Errorf("%d rows swept afterwards, want %d; %d kept", sum, left, len(kept))
	}
	op := operation("lost-0")
	op.Wait = patience
	if _, again, err := s.Do(ctx, op, work{key: op.Key, attempt: "2"}); err != nil || again {
		t.Errorf("after the sweep: replayed %t, %v", again, err)
	}
}
