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

// Runner runs the sagas of a store on this node (process). [Runner.Run] also continues sagas that other nodes
// have begun.
type Runner[TX any] struct {
	*node

	store  store.Store[TX]
	writer upkeep.Writer[TX]
	plane  sqlplane.SQL[TX] // nil if the store has no tables
	ran    atomic.Bool

	begins sync.Mutex // locked while a saga begins to run, and while Run begins to wait for works
	works  sync.WaitGroup
}

// NewRunner returns a runner for the definitions. The runner does not touch sagas of other definitions. NewRunner
// panics if cfg or the definitions are invalid, or if the store does not implement store.Renewer (to renew
// leases) or upkeep.Writer (to write in a transaction of the user).
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

// Run runs due sagas, and sagas whose node has died, until ctx ends. When ctx has ended, each saga on this node stops
// after its current step, and Run returns when all these sagas have stopped; other nodes continue the stopped sagas.
// If Do or [Handle.Result] begins a saga after the end of ctx, this saga begins no step, and Run does not wait for
// it. Run returns an error immediately if the table of the package is missing, or if Run was called before.
func (r *Runner[TX]) Run(ctx context.Context) error {
	if _, err := r.due.look(ctx, 1, 1); err != nil && ctx.Err() == nil {
		return fmt.Errorf("saga: the runner cannot read the due sagas: %w", err)
	}
	if r.ran.Swap(true) { // two Runs would share the sagas of this runner, and the end of one Run would stop the sagas of the other
		return errors.New("saga: Run of this runner was called before. Try: a new runner from saga.NewRunner")
	}
	defer r.stop()
	w := &watch[TX]{r: r, ended: make(chan struct{}, 1), running: map[store.ID]place{}}
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

// work runs fn in a goroutine for whose end Run waits. If Run waits already, it does not wait for fn: a WaitGroup must not get
// its first goroutine while another goroutine waits for it, and a saga that begins now stops before its next step.
func (r *Runner[TX]) work(fn func()) {
	r.begins.Lock()
	defer r.begins.Unlock()
	if r.isStopping() {
		go fn()
		return
	}
	r.works.Go(fn)
}

// stop makes the sagas on this node stop after their current step, and waits for them.
func (r *Runner[TX]) stop() {
	r.begins.Lock()
	r.stopping.Store(true)
	r.begins.Unlock()
	r.works.Wait()
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
