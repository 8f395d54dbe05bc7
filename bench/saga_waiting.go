package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/pgxstore"
)

// sagasWaiting has the costs of many waiting sagas, and of sagas that a node holds.
type sagasWaiting struct {
	Waiting int           `json:"waiting"`
	Pages   int           `json:"pages"`   // that a look for due sagas reads
	Look    time.Duration `json:"look_ns"` // on the server
	Starts  time.Duration `json:"starts_ns"`
	Heap    [2]int64      `json:"heap_bytes"` // added bytes: with one waiting saga, and with all
	Held    int           `json:"held"`
	HOT     float64       `json:"hot_share"` // of the heartbeats
}

const (
	sagaPagesBar = 5
	sagaLookBar  = 2 * time.Millisecond
	sagaHeapBar  = 4 << 20
	sagaWokenTTL = time.Second // sagas of dead nodes are listed once in this time, during the measurement
)

// copyWaiting makes n copies of the waiting saga. None of them is due before the next day.
const copyWaiting = `
create temp table o as select o.*, n from once_operation o cross join generate_series(1, $n) n where state = 4;
create temp table d as select d.*, n from once_saga_due d cross join generate_series(1, $n) n;
update o set key = 'copy ' || n; update d set key = 'copy ' || n, due_at = now() + interval '1 day' + random() * interval '1 day';
alter table o drop column n; alter table d drop column n;
insert into once_operation select * from o; insert into once_saga_due select * from d;
drop table o; drop table d`

// lookTracer keeps the statements that look for due sagas.
type lookTracer struct {
	mu    sync.Mutex
	looks map[string][]any
}

func (l *lookTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "once_saga_due") && strings.HasPrefix(q.SQL, "select") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.looks[q.SQL] = q.Args
	}
	return ctx
}

func (*lookTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// waitingField is a saga whose step waits until it is woken.
type waitingField struct {
	*sagaField

	look   lookTracer
	runner *saga.Runner[pgx.Tx]
	waits  *saga.Definition[string, string]
	woken  atomic.Bool
	began  chan time.Time // gets the time when the woken step runs
}

func (b *bench) sagasWaiting(ctx context.Context) (w sagasWaiting, err error) {
	w = sagasWaiting{Waiting: manyWait, Held: manyHeld}
	if b.quick {
		w.Waiting, w.Held = manyWait/10, manyHeld/10
	}
	f := &waitingField{look: lookTracer{looks: map[string][]any{}}, began: make(chan time.Time, 1)}
	open, err := b.sagaDatabase(ctx)
	if err != nil {
		return w, err
	}
	if f.sagaField, err = open(4, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = &f.look }); err != nil {
		return w, err
	}
	defer f.pool.Close()
	step := saga.Tx("wait", func(context.Context, pgx.Tx, string) (string, error) {
		if !f.woken.Swap(false) {
			return "", saga.Again(24 * time.Hour)
		}
		f.began <- time.Now()
		return "", nil
	}).Last()
	f.waits = saga.New("waits", func(ctx saga.Context, in string) (string, error) { return step.Do(ctx, in) }, step)
	for i, n := range []int{0, w.Waiting} {
		if w.Starts, w.Heap[i], err = f.starts(ctx, n); err != nil {
			return w, err
		}
	}
	if w.Pages, w.Look, err = f.explain(ctx); err != nil {
		return w, err
	}
	w.HOT, err = b.sagasHeld(ctx, w.Held)
	return w, err
}

// starts makes n waiting sagas. Meanwhile it wakes some others, one by one, and returns the longest time until one has begun, and the largest growth
// of the heap.
func (f *waitingField) starts(ctx context.Context, n int) (longest time.Duration, heap int64, err error) {
	f.runner = saga.NewRunner(pgxstore.New(f.pool, pgxstore.Config{}), saga.Config{TTL: sagaWokenTTL}, f.waits)
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.runner.Run(run) }()
	defer func() { err = errors.Join(err, <-ended) }()
	defer stop()
	if n > 0 {
		if err := f.waiting(ctx, "first"); err != nil {
			return 0, 0, err
		}
		for _, sql := range []string{strings.ReplaceAll(copyWaiting, "$n", strconv.Itoa(n)), "vacuum analyze"} {
			if _, err := f.pool.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				return 0, 0, err
			}
		}
	}
	before := heapInUse()
	for i := range singles {
		key := fmt.Sprintf("single %d beside %d", i, n)
		if err := f.waiting(ctx, key); err != nil {
			return 0, 0, err
		}
		sleep(ctx, time.Duration(i)*100*time.Millisecond)
		woken := time.Now()
		f.woken.Store(true)
		if err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error { return f.runner.Wake(ctx, tx, sagaID(key)) }); err != nil {
			return 0, 0, err
		}
		select {
		case at := <-f.began:
			longest = max(longest, at.Sub(woken))
		case <-time.After(time.Minute):
			return 0, 0, fmt.Errorf("%w: %s", errSagaLate, key)
		}
		heap = max(heap, heapInUse()-before)
	}
	return longest, heap, nil
}

// waiting starts a saga, and returns when it waits.
func (f *waitingField) waiting(ctx context.Context, key string) error {
	err := pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		_, err := saga.Start(ctx, f.runner, tx, f.waits, sagaID(key), key)
		return err
	})
	for deadline := time.Now().Add(time.Minute); err == nil; sleep(ctx, 5*time.Millisecond) {
		st, e := f.runner.Status(ctx, sagaID(key))
		switch err = e; {
		case err == nil && st.State == "waiting" && time.Until(st.Due) > time.Hour:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %+v", errSagaLate, st)
		}
	}
	return err
}

// heapInUse is the size of the reachable heap.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// explain returns how many pages the most expensive look of the runner reads, and how long it takes.
func (f *waitingField) explain(ctx context.Context) (pages int, took time.Duration, err error) {
	f.look.mu.Lock()
	defer f.look.mu.Unlock()
	for sql, args := range f.look.looks {
		var text []byte
		err := f.pool.QueryRow(ctx, "explain (analyze, buffers, format json) "+sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text)
		if err != nil {
			return 0, 0, err
		}
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`  //nolint:tagliatelle // of PostgreSQL
				Read int `json:"Shared Read Blocks"` //nolint:tagliatelle // of PostgreSQL
			} `json:"Plan"` //nolint:tagliatelle // of PostgreSQL
			Execution float64 `json:"Execution Time"` //nolint:tagliatelle // of PostgreSQL, in milliseconds
		}
		if err := json.Unmarshal(text, &plans); err != nil {
			return 0, 0, err
		}
		pages = max(pages, plans[0].Plan.Hit+plans[0].Plan.Read)
		took = max(took, time.Duration(plans[0].Execution*float64(time.Millisecond)))
	}
	if pages == 0 {
		err = errors.New("no look was seen")
	}
	return pages, took, err
}

// sagasHeld returns the share of heartbeats that touch no index.
func (b *bench) sagasHeld(ctx context.Context, n int) (hot float64, err error) {
	open, err := b.sagaDatabase(ctx)
	if err != nil {
		return 0, err
	}
	f, err := open(4, nil)
	if err != nil {
		return 0, err
	}
	defer f.pool.Close()
	var begun, running sync.WaitGroup
	release := make(chan struct{})
	call := saga.Call("call", func(context.Context, string, booking) (string, error) {
		begun.Done()
		<-release
		return "", nil
	}).DedupedFor(time.Hour).Undo(func(context.Context, string, booking, string) error { return nil })
	d := saga.New("held", func(ctx saga.Context, in booking) (string, error) { return call.Do(ctx, in) }, call)
	r := saga.NewRunner(pgxstore.New(f.pool, pgxstore.Config{}), saga.Config{TTL: heldTTL, StepTimeout: time.Hour}, d)
	begun.Add(n)
	for range n {
		running.Go(func() {
			_, _ = saga.Do(context.WithoutCancel(ctx), r, d, sagaID(once.NewKey()), newBooking())
		})
	}
	begun.Wait()
	warm, window := 20*time.Second, 10*time.Second // renewals spread the rows of full pages first
	if b.quick {
		warm, window = 2*heldTTL, heldTTL
	}
	sleep(ctx, warm)
	before, err := updatesOf(ctx, f.pool)
	sleep(ctx, window)
	then, e := updatesOf(ctx, f.pool)
	close(release)
	running.Wait()
	return then.since(before), errors.Join(err, e)
}

func (w sagasWaiting) write(p printer) {
	p("\nBeside %s sagas that wait, with the listing of sagas whose node has died once in %s:\n", thousands(int64(w.Waiting)), sagaWokenTTL)
	p("| | | bar | |")
	p("|---|---|---|---|")
	p("| a look for what is due | %d pages, %s | <= %d, <= %s | %s |", w.Pages, millis(w.Look), sagaPagesBar, sagaLookBar, word(w.Pages <= sagaPagesBar && w.Look <= sagaLookBar))
	p("| from a wake to its step, the longest of %d | %s | <= 1 s | %s |", singles, millis(w.Starts), word(w.Starts <= time.Second))
	p("| memory of the node, more than before | %.1f MB; %.1f MB beside one that waits | <= %d MB | %s |", float64(w.Heap[1])/1e6, float64(w.Heap[0])/1e6, sagaHeapBar>>20, word(w.Heap[1] <= sagaHeapBar))
	p("| heartbeats of %d sagas that touch no index | %.1f %% | >= 95 %% | %s |", w.Held, 100*w.HOT, word(w.HOT >= 0.95))
}
