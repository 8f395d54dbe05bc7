package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// fault is what happens at one point: a commit, or a request to the service.
type fault string

const (
	crashBefore fault = "crash before"
	crashAfter  fault = "crash after"
	lostUndone  fault = "lost, not applied"
	lostApplied fault = "lost, applied"
	lostLater   fault = "lost, applied later"
	refused     fault = "refused"         // of a commit: a serialization failure; of a request: it is not sent
	cancelled   fault = "cancel before"   // the saga is cancelled before it
	cancelledIn fault = "cancel within"   // the saga is cancelled while the answer is on its way
	stopped     fault = "stopped before"  // for longer than the lease, while another node goes on
	panics      fault = "panics"          // of a request: the function does
	saysNo      fault = "says no"         // of a request
	saysNotYet  fault = "says not yet"    // of a request
	fails       fault = "fails after all" // of a commit: the database is down
)

var (
	faultsOfCommits  = []fault{crashBefore, crashAfter, lostUndone, lostApplied, lostLater, refused, cancelled, cancelledIn, stopped, fails}
	faultsOfRequests = []fault{crashBefore, crashAfter, lostUndone, lostApplied, lostLater, refused, cancelled, cancelledIn, stopped, panics, saysNotYet}
)

const (
	testTTL  = 10 * time.Second
	lateness = 40 * time.Second // of what is applied later
)

// strike is a fault at the point with a number.
type strike struct {
	at    int
	fault fault
}

// world is one schedule: a database, a service, nodes that die, and what has happened. Time is virtual.
type world struct {
	t    *testing.T
	sc   scenario
	db   *memstore.Store
	mu   sync.Mutex
	plan []strike

	points  []string // what was passed
	hits    int
	clock   int
	cancels bool // a cancel was accepted

	effects map[string][]string // of the service: by key, the step
	answers map[string]string   // by key: what the service has answered, for a service that dedupes
	inputs  map[string]string   // by key: what was sent
	refuses map[string]bool     // keys with a tombstone
	log     []entry             // effects of the service
	flows   int
	story   []string
}

// entry is an effect, or its undo, at a time.
type entry struct {
	at   int
	what string
}

func (w *world) tellf(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	return w.clock
}

// process is a node.
type process struct {
	*memstore.Store

	w    *world
	name string
	dead atomic.Bool
	died context.CancelFunc
	r    *saga.Runner[*memstore.Tx]
}

var errDead = &store.Error{Kind: store.KindUnavailable, Err: errors.New("the process is dead")}

func (w *world) node(name string, died context.CancelFunc) *process {
	p := &process{Store: w.db, w: w, name: name, died: died}
	p.r = saga.NewRunner[*memstore.Tx](p, saga.Config{
		TTL: testTTL, StepTimeout: time.Minute, Attempts: 4, UndoAttempts: 6, Backoff: time.Second, MaxBackoff: 2 * time.Second, Every: time.Second,
		Retain: once.Forever, Observer: saga.Log(quiet),
	}, w.sc.definition(w, p))
	return p
}

// pass is a point. It returns the fault that strikes there.
func (p *process) pass(what string) fault {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.points = append(w.points, what)
	n := len(w.points)
	w.tellf("%d: %s: %s", n, p.name, what)
	for _, s := range w.plan {
		if s.at == n {
			w.hits++
			w.tellf("   %s", s.fault)
			return s.fault
		}
	}
	return ""
}

func (p *process) die() {
	p.dead.Store(true)
	p.died()
}

func (p *process) Unwrap() any { return p.Store }

func (p *process) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if p.dead.Load() {
		return store.Record{}, errDead
	}
	return p.Store.Read(ctx, id)
}

func (p *process) Renew(ctx context.Context, holds []store.Hold, d time.Duration) ([]store.Hold, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	return p.Store.Renew(ctx, holds, d)
}

func (p *process) Unfinished(ctx context.Context, page upkeep.Listing) ([]upkeep.Entry, store.ID, error) {
	if p.dead.Load() {
		return nil, store.ID{}, errDead
	}
	return p.Store.Unfinished(ctx, page)
}

func (p *process) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	return p.write("swap to "+c.Next.State.String(), func() (store.Record, error) { return p.Store.Swap(context.WithoutCancel(ctx), c) }, func() {})
}

func (p *process) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	if p.dead.Load() {
		return nil, store.Record{}, errDead
	}
	claim, rec, err := p.Store.Begin(ctx, opts)
	if claim != nil {
		claim = &processTx{claim, p}
	}
	return claim, rec, err
}

type processTx struct {
	store.Transaction[*memstore.Tx]

	p *process
}

func (t *processTx) Commit(ctx context.Context, c store.Change) error {
	commit := func() (store.Record, error) {
		return store.Record{}, t.Transaction.Commit(context.WithoutCancel(ctx), c)
	}
	_, err := t.p.write("commit", commit, func() { _ = t.Rollback(ctx) })
	return err
}

// write is a commit with what becomes of it.
func (p *process) write(what string, apply func() (store.Record, error), undo func()) (rec store.Record, err error) {
	if p.dead.Load() {
		undo()
		return rec, errDead
	}
	f := p.pass(what)
	switch f {
	case crashBefore:
		p.die()
	case cancelled:
		p.w.cancel()
	case stopped:
		p.stop()
	case lostUndone, refused, fails:
		undo()
		kind := map[fault]store.Kind{lostUndone: store.KindLost, refused: store.KindRetry, fails: store.KindUnavailable}[f]
		return rec, &store.Error{Kind: kind, Err: errors.New("simulated")}
	case lostLater:
		time.AfterFunc(lateness, func() { _, _ = apply() })
		return rec, &store.Error{Kind: store.KindLost, Err: errors.New("simulated")}
	}
	if p.dead.Load() {
		undo()
		return rec, errDead
	}
	rec, err = apply()
	switch {
	case f == crashAfter:
		p.die()
		return store.Record{}, errDead
	case f == cancelledIn:
		p.w.cancel()
	case f == lostApplied && err == nil:
		return store.Record{}, &store.Error{Kind: store.KindLost, Err: errors.New("simulated")}
	}
	return rec, err
}

// stop is SIGSTOP and SIGCONT: another node takes over meanwhile, and stops in the middle as soon as it waits.
func (p *process) stop() {
	p.dead.Store(true) // it renews nothing
	other := p.w.node(p.name+"'", func() {})
	ctx, cancel := context.WithTimeout(context.Background(), 2*testTTL+time.Second)
	defer cancel()
	_ = other.r.Run(ctx)
	p.dead.Store(false)
}

// cancel cancels the saga in a transaction of its own.
func (w *world) cancel() {
	p := w.node("canceller", func() {})
	tx := w.db.BeginTx()
	defer tx.Rollback()
	err := p.r.Cancel(context.Background(), tx, sagaID, "changed their mind")
	if err == nil {
		err = tx.Commit()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellf("   cancel: %v", err)
	w.cancels = w.cancels || err == nil
}

var errTimeout = errors.New("timeout")

// request sends a request to the service: arrive is what that does. Each request has an answer that is as good as lost, or none.
func (p *process) request(what string, arrive func() (string, error)) (answer string, err error) {
	if p.dead.Load() {
		return "", errDead
	}
	f := p.pass(what)
	switch f {
	case crashBefore:
		p.die()
	case cancelled:
		p.w.cancel()
	case stopped:
		p.stop()
	case panics:
		panic("simulated")
	case refused:
		return "", lease.NotSent(errTimeout)
	case lostUndone:
		return "", errTimeout
	case saysNotYet:
		return "", saga.Again(3 * time.Second)
	case lostLater:
		time.AfterFunc(lateness, func() { _, _ = arrive() })
		return "", errTimeout
	}
	if p.dead.Load() {
		return "", errDead
	}
	answer, err = arrive()
	switch f {
	case crashAfter:
		p.die()
		return "", errDead
	case cancelledIn:
		p.w.cancel()
	case lostApplied:
		return "", errTimeout
	}
	return answer, err
}

// arrives is a call that comes to the service.
func (w *world) arrives(step, key, input string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, again := w.inputs[key]; again && before != input && w.sc.contract != undoless {
		w.t.Errorf("step %s sends %q and %q under one key", step, before, input)
	}
	w.inputs[key] = input
	if w.refuses[key] {
		return "", errors.New("the service refuses the key")
	}
	if answer, again := w.answers[key]; again && w.sc.contract != checked && w.sc.contract != unsaid {
		if answer == "no" {
			return "", &once.Failure{Code: "no"}
		}
		return answer, nil
	}
	if w.sc.says(step, w.answers[key] != "") {
		w.answers[key] = "no"
		return "", &once.Failure{Code: "no"}
	}
	w.clock++
	w.effects[key] = append(w.effects[key], step)
	w.log = append(w.log, entry{w.clock, "do " + step})
	w.answers[key] = fmt.Sprintf("%s %d", step, w.clock)
	return w.answers[key], nil
}

// revokes is an undo that comes to the service. Its keys are in the same room as those of calls.
func (w *world) revokes(step, key, result string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.answers[key]; again {
		return nil
	}
	if !strings.HasPrefix(result, step+" ") {
		w.t.Errorf("step %s is undone with the result %q", step, result)
	}
	w.clock++
	w.answers[key] = "undone"
	w.log = append(w.log, entry{w.clock, "undo " + step})
	return nil
}

// cancels undoes a call by its key, or sees to it that it never happens.
func (w *world) cancelsKey(step, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.effects[key]) > 0 && !w.refuses[key] {
		w.clock++
		w.log = append(w.log, entry{w.clock, "undo " + step})
	}
	w.refuses[key] = true
}

// finds tells what became of a call, and sees to it that it never happens if it has not.
func (w *world) finds(key string) (string, lease.Finding, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.effects[key]) > 0 {
		return w.answers[key], lease.Happened, nil
	}
	w.refuses[key] = true
	return "", lease.Voided, nil
}

// entries are all effects and undos, in their order: those of the service and those of the database.
func (w *world) entries() []entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append([]entry(nil), w.log...)
	text, _ := w.db.Get("log")
	for line := range strings.SplitSeq(strings.Trim(text, ";"), ";") {
		if at, what, found := strings.Cut(line, " "); found {
			n, _ := strconv.Atoi(at)
			all = append(all, entry{n, what})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at < all[j].at })
	return all
}

// note writes an effect to the database.
func (w *world) note(tx *memstore.Tx, what string) error {
	text, _, err := tx.Get("log")
	if err != nil {
		return err
	}
	return tx.Put("log", text+fmt.Sprintf("%d %s;", w.now(), what))
}

var quiet = slog.New(slog.DiscardHandler)
