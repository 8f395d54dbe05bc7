package saga

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Runner runs sagas on a store, on this node. [Runner.Run] also continues sagas that other nodes have begun.
type Runner[TX any] struct {
	*node

	store  store.Store[TX]
	writer upkeep.Writer[TX]
	plane  sqlplane.SQL[TX] // nil if the store has no tables
	works  sync.WaitGroup
	ran    atomic.Bool
}

// NewRunner returns a runner for the definitions. The runner does not touch sagas of other definitions.
// NewRunner panics if cfg or the definitions are invalid, or if the store cannot renew leases or write in a
// transaction of the user ([store.Renewer], [upkeep.Writer]).
func NewRunner[TX any](s store.Store[TX], cfg Config, definitions ...AnyDefinition) *Runner[TX] {
	cfg = cfg.withDefaults()
	renewer, renews := store.As[store.Renewer](s)
	writer, writes := store.As[upkeep.Writer[TX]](s)
	if !renews || !writes {
		panic("saga: NewRunner: the store must implement store.Renewer and upkeep.Writer. Try: pgxstore or sqlstore")
	}
	n := &node{ops: s, cfg: cfg, defs: map[string]*definition{}}
	var names []string
	for _, def := range definitions {
		d := def.core()
		if n.defs[d.name] != nil {
			panic(fmt.Sprintf("saga: NewRunner: two definitions have the name %q", d.name))
		}
		for _, st := range d.steps {
			if st.tx != nil && st.tx != reflect.TypeFor[TX]() {
				panic(fmt.Sprintf("saga: NewRunner: step %q of saga %q needs a transaction of type %v, but the transactions of the store have the type %v", st.name, d.name, st.tx, reflect.TypeFor[TX]()))
			}
		}
		n.defs[d.name] = d
		names = append(names, d.name)
	}
	slices.Sort(names)
	n.heart = held.NewHeart(s, renewer, cfg.TTL, cfg.MaxDuration)
	n.transact = func(ctx context.Context, r *run, full string, fn func(ctx context.Context, tx any) (end, error)) error {
		t := transaction[TX]{run: r, store: s, full: full, fn: fn}
		return t.untilCommitted(ctx)
	}
	for _, name := range names {
		n.tell(context.Background(), Event{Type: EventDefined, Saga: name})
		for _, step := range slices.Sorted(maps.Keys(n.defs[name].steps)) {
			n.tell(context.Background(), Event{Type: EventDefined, Saga: name, Step: step})
		}
	}
	r := &Runner[TX]{node: n, store: s, writer: writer}
	n.due = dueRecords{s, n.defs}
	if plane, ok := store.As[sqlplane.SQL[TX]](s); ok {
		r.plane, n.due = plane, newDueTable(plane, names)
	}
	return r
}

// Stats returns the counts of the runner's events.
func (r *Runner[TX]) Stats() Stats { return r.stats() }

// Run runs due sagas, and sagas whose node has died, until ctx ends. Then each saga on this node stops after
// its current step, and Run returns when all sagas on this node have stopped; other nodes continue these
// sagas. Run returns an error immediately if the table of the package is missing, or if Run was called
// before.
func (r *Runner[TX]) Run(ctx context.Context) error {
	if _, err := r.due.look(ctx, 1, 1); err != nil && ctx.Err() == nil {
		return fmt.Errorf("saga: the runner cannot read the due sagas: %w", err)
	}
	if r.ran.Swap(true) { // two Runs would share the sagas of this runner, and the end of one Run would stop the sagas of the other
		return errors.New("saga: Run of this runner was called before. Try: a new runner from saga.NewRunner")
	}
	defer r.works.Wait()
	defer r.stopping.Store(true)
	w := &watch[TX]{r: r, free: make(chan struct{}, r.cfg.Concurrency), ended: make(chan struct{}, 1), running: map[store.ID]bool{}}
	var listed time.Time
	for {
		// The lease of a dead node ends after one TTL at the earliest, so more frequent lists would find nothing.
		list := time.Since(listed) >= r.cfg.TTL
		if list {
			listed = time.Now()
		}
		full, err := w.look(ctx, list)
		if err != nil && ctx.Err() == nil {
			r.tell(ctx, Event{Type: EventDatabase, Err: err})
		}
		// The pause is random, so that nodes that have started at the same time do not look at the same time.
		pause := r.cfg.Every - rand.N(r.cfg.Every/4+1)
		timer := time.NewTimer(pause)
		ended := w.ended
		if !full {
			ended = nil
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-ended: // more sagas may be due than the places of the last look
			timer.Reset(r.cfg.Every / fewEvery)
			w.gather(ctx, timer.C)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// fewEvery is the part of Config.Every for which free places wait for further ones, so that one statement takes many sagas.
const fewEvery = 8

// watch finds sagas for a runner, and starts them.
type watch[TX any] struct {
	r       *Runner[TX]
	free    chan struct{}
	ended   chan struct{}
	mu      sync.Mutex
	running map[store.ID]bool
	left    map[store.ID]bool // sagas that were due in the last look and were not taken
}

// gather waits until half of the places are free, or until the time has passed.
func (w *watch[TX]) gather(ctx context.Context, over <-chan time.Time) {
	for len(w.free) > cap(w.free)/2 {
		select {
		case <-w.ended:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// look starts due sagas. It reports whether more sagas may be due than this node has places for.
func (w *watch[TX]) look(ctx context.Context, lists bool) (full bool, err error) {
	free := cap(w.free) - len(w.free)
	// A look would only find sagas that this node has no place for.
	if free == 0 {
		return true, nil
	}
	ids, err := w.r.due.look(ctx, cap(w.free), free) // more than free, because some of them may be running on this node
	if err == nil {
		ids, err = w.apart(ctx, ids)
	}
	if err != nil {
		return false, err
	}
	full = len(ids) >= free
	ids = ids[:min(free, len(ids))]
	if err := w.take(ctx, ids); err != nil {
		return false, err
	}
	// A saga of a dead node has no row of due. It is found by reading all running sagas, which costs more.
	if !lists {
		return full, nil
	}
	return full, eachIdle(ctx, w.r.ops, store.StateRunning, func(e upkeep.Entry) (bool, error) {
		if w.r.defs[e.Name] != nil {
			w.start(ctx, e.ID, func(ctx context.Context) error { return w.r.resume(ctx, e.ID, false) })
		}
		return ctx.Err() == nil, nil
	})
}

// apart removes sagas that already run on this node and were woken meanwhile. It makes them due a little later, so that they do
// not delay other sagas.
func (w *watch[TX]) apart(ctx context.Context, ids []store.ID) (others []store.ID, err error) {
	for _, id := range ids {
		w.mu.Lock()
		runs := w.running[id]
		w.mu.Unlock()
		if !runs {
			others = append(others, id)
		} else if err := w.r.due.push(ctx, id); err != nil {
			return nil, err //nolint:wrapcheck // it is of the store
		}
	}
	return others, nil
}

// take takes due sagas. A saga that is not taken was probably taken by another node. If it is still due in the next look, it is
// handled separately: it was woken while a node runs it, or it has ended.
func (w *watch[TX]) take(ctx context.Context, ids []store.ID) error {
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] }) // other nodes see the same list, and should not compete for the same sagas
	runs, can, err := w.r.takeMany(ctx, ids)
	if err != nil {
		return err
	}
	for id, run := range runs {
		w.start(context.WithoutCancel(ctx), id, run) // without cancel, because the saga is taken already and must run or be left
	}
	before := w.left
	w.left = map[store.ID]bool{}
	for _, id := range ids {
		if runs[id] != nil {
			continue
		}
		if w.left[id] = true; !can || before[id] {
			w.start(ctx, id, func(ctx context.Context) error { return w.r.resume(ctx, id, true) })
		}
	}
	return nil
}

// start runs a saga in a separate goroutine, as soon as a place is free.
func (w *watch[TX]) start(ctx context.Context, id store.ID, run func(context.Context) error) {
	w.mu.Lock()
	busy := w.running[id]
	w.running[id] = true
	w.mu.Unlock()
	if busy {
		return
	}
	done := func() {
		w.mu.Lock()
		delete(w.running, id)
		w.mu.Unlock()
	}
	select {
	case w.free <- struct{}{}:
	case <-ctx.Done():
		done()
		return
	}
	w.r.works.Go(func() {
		defer func() {
			done()
			<-w.free
			// One element is enough to wake Run.
			select {
			case w.ended <- struct{}{}:
			default:
			}
		}()
		// The caller's context must not end a saga in the middle of a step: Run stops sagas between steps.
		own := context.WithoutCancel(ctx)
		if err := run(own); err != nil {
			w.r.tell(own, Event{Type: EventInterrupted, ID: idOf(id), Err: err})
		}
	})
}

// resume takes a saga over, and runs it.
func (n *node) resume(ctx context.Context, id store.ID, isDue bool) error {
	var since time.Time
	var err error
	if isDue {
		// This is read before the record, so that forget does not delete a wake that comes later.
		if since, err = n.due.since(ctx, id); err != nil || since.IsZero() { // another node has taken the saga meanwhile
			return err //nolint:wrapcheck // it is of the store
		}
	}
	rec, err := n.ops.Read(ctx, id)
	switch {
	case err != nil:
		return err //nolint:wrapcheck // it is of the store
	// The saga was woken while a node runs it. That node sees the wake when the saga would wait.
	case isDue && rec.State == store.StateRunning && !rec.Idle():
		return n.due.push(ctx, id) //nolint:wrapcheck // likewise
	// The saga is stuck or has ended, so it needs no row of due.
	case isDue && !rec.Idle():
		return n.due.forget(ctx, id, since) //nolint:wrapcheck // likewise
	}
	r, err := n.takeOver(ctx, id, rec)
	switch {
	case errors.Is(err, errLost):
		return nil
	case err != nil:
		return err
	}
	r.background = true
	return r.execute(ctx)
}
