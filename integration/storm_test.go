package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// stormPatience bounds what takes its time in the long form.
const stormPatience = time.Hour

// TestStormOfDuplicates has 4 processes with 24 connections each send 96 duplicates of every
// key at the same time.
func TestStormOfDuplicates(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	const processes, workers = 4, 24
	for name, keys := range map[string]int{
		harness.Pgx: scale(500, 10_000), harness.Postgres: scale(500, 2_000), harness.MariaDB: scale(500, 2_000),
		harness.MySQL: scale(500, 2_000), harness.SQLite: scale(200, 2_000),
	} {
		t.Run(name, func(t *testing.T) { // one after the other: the machine is busy enough
			sampleMySQL(t, name)
			unleash(t, newTestDB(t, name), processes, workers, keys)
		})
	}
}

// tale is what a process of a storm has to tell.
type tale struct {
	Executed, Replayed, InFlight, Mismatches int64
	Answers                                  map[string]string // attempt by key
}

func unleash(t *testing.T, g *testDB, processes, workers, keys int) {
	ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
	defer cancel()
	tales := make([]tale, processes)
	errs := make([]error, processes)
	children := make([]*harness.Child, processes)
	for i := range children {
		children[i] = harness.Start(t, plan{Store: g.Kind, DSN: g.DSN, Flow: flowStorm, Keys: keys, Workers: workers, Process: i})
	}
	for _, c := range children {
		c.Wait(saidReady)
	}
	began := time.Now()
	for _, c := range children {
		c.EndInput()
	}
	for i, c := range children {
		for line := range c.Lines() {
			errs[i] = json.Unmarshal([]byte(line), &tales[i])
		}
		_, killed, err := c.Ends()
		if errs[i] = errors.Join(errs[i], err); killed {
			errs[i] = errors.Join(errs[i], errors.New("it was killed"))
		}
	}
	took := time.Since(began)
	var sum tale
	for i, told := range tales {
		if errs[i] != nil {
			t.Fatalf("process %d: %v. %s", i, errs[i], rerun(t))
		}
		if !maps.Equal(told.Answers, tales[0].Answers) || len(told.Answers) != keys {
			t.Fatalf("process %d got other answers than process 0. %s", i, rerun(t))
		}
		sum.Executed += told.Executed
		sum.Replayed += told.Replayed
		sum.InFlight += told.InFlight
		sum.Mismatches += told.Mismatches
	}
	requests := sum.Executed + sum.Replayed + sum.InFlight + sum.Mismatches
	testenv.Count("requests", int(requests))
	testenv.Reportf(t, "%s: %d keys, %d duplicates of each; %d requests in %v: %.0f/s; executed %d, replayed %d, in flight %d, mismatch %d", g.Kind, keys,
		processes*workers, requests, took.Round(time.Millisecond), float64(requests)/took.Seconds(), sum.Executed, sum.Replayed, sum.InFlight, sum.Mismatches)
	if sum.Executed != int64(keys) || sum.InFlight == 0 && !oneWriter(g.Kind) || sum.Mismatches == 0 {
		t.Errorf("want each key executed once, and requests that were in flight or did not match. %s", rerun(t))
	}
	for key, attempt := range tales[0].Answers {
		s, err := g.state(ctx, key)
		if err != nil || s != executed(attempt) {
			t.Fatalf("key %s, answer %s: the database has %+v, %v. %s", key, attempt, s, err, rerun(t))
		}
	}
}

// saidReady is what a process of a storm prints when it waits for the others.
const saidReady = "ready"

// storm is one process of it.
func storm(ctx context.Context, p plan, start <-chan struct{}) error {
	// A few connections more, for those who ask from inside of a handler.
	s, err := stores[p.Store](ctx, setup{dsn: p.DSN, conns: p.Workers + 4})
	if err != nil {
		return err
	}
	fmt.Println(saidReady)
	<-start
	told := tale{Answers: map[string]string{}}
	var mu sync.Mutex
	var failure atomic.Pointer[error]
	var group sync.WaitGroup
	for i := range p.Workers {
		w := &stormer{plan: p, id: i, s: s, tale: &told, mu: &mu}
		if p.Process%2 == 0 { // otherwise the duplicates of the process coalesce
			w.s = s.Another()
		}
		group.Go(func() {
			for n := 0; n < p.Keys && failure.Load() == nil; n++ {
				if err := w.ask(ctx, n); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

// stormer is one connection's worth of a storm.
type stormer struct {
	plan
	id   int
	s    system
	tale *tale
	mu   *sync.Mutex
}

// ask gets the answer for one key, and then asks for something else with it.
func (w *stormer) ask(ctx context.Context, n int) error {
	op := operation(fmt.Sprintf("storm-%d", n))
	if w.id%3 == 0 {
		op.Attempt.Number = 1
	}
	attempt := work{key: op.Key, attempt: fmt.Sprintf("p%dw%d", w.Process, w.id)}
	var inside error
	if n%50 == 0 && !oneWriter(w.Store) { // whose other writers wait
		attempt.before = func() { inside = w.conflict(ctx, op, true) }
	}
	ask := w.s.Do
	if (w.id+n)%4 == 1 && attempt.before == nil {
		ask = w.s.Batch
	}
	got, replayed, err := ask(ctx, op, attempt)
	for once.CodeOf(err) == once.CodeInFlight {
		w.count(&w.tale.InFlight)
		op.Wait = patience
		got, replayed, err = ask(ctx, op, attempt)
	}
	if err != nil || inside != nil {
		return fmt.Errorf("key %s: %w", op.Key, errors.Join(err, inside))
	}
	w.mu.Lock()
	first, known := w.tale.Answers[op.Key]
	w.tale.Answers[op.Key] = got.Attempt
	w.mu.Unlock()
	if known && first != got.Attempt || got.Key != op.Key {
		return fmt.Errorf("key %s: answers %q and %+v", op.Key, first, got)
	}
	if replayed {
		w.count(&w.tale.Replayed)
	} else {
		w.count(&w.tale.Executed)
	}
	if (w.id+n)%8 == 0 {
		return w.conflict(ctx, op, false)
	}
	return nil
}

// conflict asks for something else with a key that is taken. That never executes.
func (w *stormer) conflict(ctx context.Context, op once.Operation, inFlight bool) error {
	op.Fingerprint = once.FingerprintOf([]byte("something else"))
	op.Wait, op.Attempt.Number = 0, 0 // a call that has not looked may meet another that has not
	got, _, err := w.s.Another().Do(ctx, op, work{key: op.Key, attempt: "conflict"})
	switch code := once.CodeOf(err); {
	case code == once.CodeMismatch && once.EffectOf(err) == once.EffectNotApplied:
		w.count(&w.tale.Mismatches)
	case code == once.CodeInFlight && once.EffectOf(err) == once.EffectNotApplied && inFlight:
		w.count(&w.tale.InFlight)
	default:
		return fmt.Errorf("key %s was asked for something else: %+v, %w", op.Key, got, err)
	}
	return nil
}

func (w *stormer) count(n *int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
}
