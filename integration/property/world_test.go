package property

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

type tx = *memstore.Tx

// tick is the only step in which the process clock moves. It is longer than every
// pause of the engine, so that after it everybody has woken up, however long the dice
// let them sleep; no bound is a multiple of it, so that none ends at the same moment.
const (
	tick   = 300 * time.Millisecond
	settle = 690 * time.Millisecond
)

// cacheFor is for how long a node with a cache may say what the store has forgotten,
// because its clock has jumped.
const cacheFor = 1000 * time.Millisecond

// world is a database, the nodes that use it, and what is known about both.
type world struct {
	t     *rapid.T
	ctx   context.Context //nolint:containedctx // of the test
	db    *database
	now   time.Duration // the store's clock: it moves when the test says so
	step  int
	nodes []*node
	ops   []*operation
	tally tally
	story []string

	caches bool // of the nodes

	mu      sync.Mutex // several callers wake up in one tick
	gates   []*gate
	ghosts  []*ghost
	groups  []*group // which have not ended
	ended   []*call  // in this step
	runs    map[string]*run
	broken  error
	seq     int
	holders []*holder
	calls   []*call // who has not been answered
}

// node is a process with an engine.
type node struct {
	w      *world
	engine *once.Engine[tx]
	synced bool
	dead   bool
}

func newWorld(t *rapid.T, met tally) *world {
	w := &world{t: t, ctx: context.Background(), db: &database{Store: memstore.New()}, runs: map[string]*run{}, tally: met, step: 1, now: 10000 * time.Hour}
	seed := w.db.BeginTx()
	if err := seed.Put("taken", ""); err != nil || seed.Commit() != nil {
		t.Fatal("the store cannot be prepared")
	}
	for i := range 3 {
		w.ops = append(w.ops, &operation{id: store.ID{Scope: "s", Key: "k" + strconv.Itoa(i)}})
	}
	w.caches = oneIn(t, 2, "caches")
	for i := range 2 {
		w.nodes = append(w.nodes, w.newNode(i == 1))
	}
	return w
}

func (w *world) newNode(synced bool) *node {
	n := &node{w: w, synced: synced}
	cfg := once.Config{Settle: settle, Synced: synced, Observer: w, Retain: retention}
	if w.caches {
		cfg.Cache, cfg.CacheFor = 1<<20, cacheFor
	}
	n.engine = once.New[tx](&gated{n: n, f: storetest.NewFaults[tx](w.db)}, cfg)
	return n
}

// lock locks w and returns what unlocks it.
func (w *world) lock() func() {
	w.mu.Lock()
	return w.mu.Unlock
}

// breaks notes a broken promise that was seen on a caller's goroutine.
func (w *world) breakf(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(format, args...)
	}
}

func (w *world) tellf(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
	w.t.Log(w.story[len(w.story)-1])
}

func (w *world) meet(what string) { w.tally[what]++ }

func (w *world) operation(id store.ID) *operation {
	for _, o := range w.ops {
		if o.id == id {
			return o
		}
	}
	panic(fmt.Sprintf("property: %v is no operation", id))
}

func (w *world) claim(o *operation) {
	if o.claims++; o.claims > 1 {
		w.breakf("%s: %d transactions have the claim", o.id.Key, o.claims)
	}
}

func (w *world) free(o *operation) {
	o.claims--
	w.db.unseen = slices.DeleteFunc(w.db.unseen, func(id store.ID) bool { return id == o.id })
}

func (w *world) unique(o *operation) string {
	defer w.lock()()
	return fmt.Sprintf("unique %s %d", o.id.Key, o.epoch)
}

func (w *world) newRun(c *call, a *answer, op once.Operation) *run {
	defer w.lock()()
	r := &run{name: "run" + strconv.Itoa(len(w.runs)), op: a.op, by: c, fp: a.fp, retain: retention}
	if op.Retain != 0 {
		r.retain = op.Retain
	}
	w.runs[r.name] = r
	a.runs = append(a.runs, r)
	return r
}

// leased is a piece of work that no engine does.
func (w *world) leased(o *operation, fp []byte) *run {
	r := &run{name: "run" + strconv.Itoa(len(w.runs)), op: o, fp: fp, retain: retention, ending: succeeding}
	w.runs[r.name] = r
	return r
}

// done is the Swap that finishes work of r, with its effect.
func done(r *run, e store.Expect, claim string) *store.Change {
	return &store.Change{
		ID: r.op.id, Expect: e, Retain: retention,
		Next: store.Record{
			State: store.StateDone, Fence: max(1, e.Fence), Nonce: []byte(claim), Fingerprint: r.fp,
			Result: store.Result{Body: []byte(strconv.Quote(r.name))},
		},
		Writes: []store.Statement{{SQL: "insert", Args: []any{r.name, "effect"}, Rows: 1}},
	}
}

// rival executes an operation while a COMMIT or Swap is on its way. Its caller holds
// w's lock.
func (w *world) rival(id store.ID) {
	r := w.leased(w.operation(id), nil)
	ch := done(r, store.Expect{}, "a rival, 16 byte")
	if _, err := w.db.Swap(w.ctx, *ch); err != nil {
		delete(w.runs, r.name) // another run was there already
		return
	}
	w.meet(metRival)
}

// Observe implements [once.Observer].
func (w *world) Observe(ctx context.Context, e once.Event) {
	defer w.lock()()
	c := callOf(ctx)
	c.events = append(c.events, e)
	if e.Type != once.EventFinished {
		w.meet(string(e.Type))
	}
	if e.Type == once.EventSettled && e.Err == nil {
		w.meet(metSettledApplied)
	}
}

// settles waits until everybody waits, for an order or for time to pass.
func (w *world) settles() { synctest.Wait() }

// ticks lets the process clock tick. The store's clock does not follow.
func (w *world) ticks(*rapid.T) {
	<-time.After(tick)
	w.db.Advance(-tick)
	w.settles()
}

// check holds everything that is known against the store.
func (w *world) check() {
	w.settles()
	defer w.lock()()
	w.step++
	if w.broken != nil {
		w.t.Fatal(w.broken)
	}
	for _, o := range w.ops {
		if err := o.look(w); err != nil {
			w.t.Fatal(err)
		}
	}
	w.count()
	slices.SortFunc(w.ended, func(a, b *call) int { // who has woken up first in a tick is chance
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(len(a.runs()), len(b.runs())))
	})
	for _, c := range w.ended {
		if err := w.judge(c); err != nil {
			w.t.Fatalf("group %d: %v", c.seq, err)
		}
	}
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool { return slices.Contains(w.ended, c) })
	w.groups = slices.DeleteFunc(w.groups, func(g *group) bool { return g.left == 0 })
	w.ended = nil
	for _, r := range w.runs {
		if err := r.taken(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// count finds the effects in the store.
func (w *world) count() {
	type epoch struct {
		o *operation
		n int
	}
	per := map[epoch]int{}
	for _, r := range w.runs {
		_, there := w.db.Get(r.name)
		switch {
		case r.effect && !there:
			w.t.Fatalf("the effect of run %s has vanished", r.name)
		case there && !r.effect:
			r.effect, r.epoch = true, r.op.epoch
		}
		keeps := r.ending == succeeding || r.ending == colliding || r.ending == obeying || r.ending == keeping
		switch {
		case r.spoilt() && r.recorded:
			w.t.Fatalf("run %s: its handler had ended the transaction, and it is recorded", r.name)
		case r.spoilt():
			continue
		case r.effect != (r.recorded && keeps):
			w.t.Fatalf("run %s (%s): effect %t, recorded %t", r.name, r.ending, r.effect, r.recorded)
		case r.effect:
			e := epoch{r.op, r.epoch}
			if per[e]++; per[e] > 1 {
				w.t.Fatalf("%s: %d effects", r.op.id.Key, per[e])
			}
		}
	}
}
