package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// Point is a place where a call of a store can fail, and the way in which it fails.
type Point string

const (
	BeginDown         Point = "begin: not reached"
	BeginRetry        Point = "begin: serialization failure"
	CommitDown        Point = "commit: not reached"
	CommitRetry       Point = "commit: serialization failure"
	CommitTaken       Point = "commit: another one was faster"
	CommitLostUndone  Point = "commit: answer lost, not applied"
	CommitLostApplied Point = "commit: answer lost, applied"
	CommitLostLater   Point = "commit: answer lost, applied later"
	RollbackDown      Point = "rollback: connection lost"
	SwapDown          Point = "swap: not reached"
	SwapRetry         Point = "swap: serialization failure"
	SwapTaken         Point = "swap: another one was faster"
	SwapLostUndone    Point = "swap: answer lost, not applied"
	SwapLostApplied   Point = "swap: answer lost, applied"
	SwapLostLater     Point = "swap: answer lost, applied later"
	ReadDown          Point = "read: not reached"
	JoinDown          Point = "join: not reached"
)

// Plan says when a [Faults] fails. Every call of a method of the store passes each [Point] of the method one
// time, in the order in which the constants are declared.
type Plan struct {
	// Nth chooses points by number. The first number counts the points since Arm was called, each other number
	// counts the points since the point that the previous number has chosen.
	Nth []int

	// At chooses points by name: each point of At fails when a call passes the point for the first time.
	At []Point

	// Outage makes the store unreachable after the last point of Nth or At has failed.
	Outage bool

	// Later is how many calls of Read, Begin and Swap do not see the change of a "LostLater" point yet. Default
	// 1. After 10 ms the change is applied in any case, because a transaction that is open meanwhile may block
	// the calls.
	Later int

	// The function Rival acts as the faster caller at the points CommitTaken and SwapTaken. If Rival is nil,
	// no other caller acts, and the store returns the error although the record has not changed.
	Rival func(context.Context)
}

// Faults is a store that fails at planned points, in the ways in which a database can fail. After a "not reached" error
// nothing was applied. After an "answer lost" error the change was applied, was not applied, or will be
// applied.
type Faults[TX any] struct {
	faults
	s store.Store[TX]
}

// NewFaults returns a Faults on s. The returned Faults has no planned faults.
func NewFaults[TX any](s store.Store[TX]) *Faults[TX] {
	return &Faults[TX]{faults: faults{ops: s}, s: s}
}

// faults plans and counts the faults of a store that can read and swap.
type faults struct {
	ops  store.Operations
	mu   sync.Mutex
	plan Plan
	out  bool
	hits []Point
	late []*late
}

// late is a change that is applied after its caller got the error that the answer is lost.
type late struct {
	unseen int // how many more calls of the store must not see the change
	apply  func()
}

// Arm plans the faults of p, and drops the faults that were planned before.
func (f *faults) Arm(p Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.Nth, p.At = slices.Clone(p.Nth), slices.Clone(p.At)
	f.plan, f.out, f.hits = p, false, nil
}

// Heal drops the plan and returns the points that have failed. Before Heal returns, Heal applies all changes
// that were delayed at a "LostLater" point.
func (f *faults) Heal() []Point {
	f.mu.Lock()
	hits, late := f.hits, f.late
	f.plan, f.out, f.hits, f.late = Plan{}, false, nil, nil
	f.mu.Unlock()
	for _, l := range late {
		l.apply()
	}
	return hits
}

// later delays the call of apply. It returns the error that the caller gets now.
func (f *faults) later(apply func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &late{unseen: f.plan.Later, apply: sync.OnceFunc(apply)}
	if l.unseen == 0 {
		l.unseen = 1
	}
	// The timer covers the case that no more calls come, or that they all wait for the open transaction.
	f.late = append(f.late, l)
	time.AfterFunc(10*time.Millisecond, l.apply)
	return injected(store.KindLost)
}

// reached applies the delayed changes that this call of the store must see. The caller must have no transaction open:
// on SQLite the changes would wait for the end of that transaction.
func (f *faults) reached() {
	f.mu.Lock()
	var due []*late
	for _, l := range f.late {
		if l.unseen--; l.unseen < 0 {
			due = append(due, l)
		}
	}
	f.mu.Unlock()
	// Without the lock, because apply waits for the database.
	for _, l := range due {
		l.apply()
	}
}

// Unwrap returns the underlying store, for [store.As].
func (f *Faults[TX]) Unwrap() any { return f.s }

// pass reports whether p fails now.
func (f *faults) pass(p Point) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	struck := false
	if len(f.plan.Nth) > 0 {
		if f.plan.Nth[0]--; f.plan.Nth[0] == 0 {
			f.plan.Nth, struck = f.plan.Nth[1:], true
		}
	}
	if i := slices.Index(f.plan.At, p); i >= 0 && !struck {
		f.plan.At, struck = slices.Delete(f.plan.At, i, i+1), true
	}
	if struck {
		f.hits = append(f.hits, p)
		f.out = f.plan.Outage && len(f.plan.Nth) == 0 && len(f.plan.At) == 0
	}
	return struck
}

// down reports whether the store is out of reach, or p makes it so now.
func (f *faults) down(p Point) bool {
	f.mu.Lock()
	out := f.out
	f.mu.Unlock()
	return out || f.pass(p)
}

// overtaken lets the rival of the plan act before the caller gets its error.
func (f *faults) overtaken(ctx context.Context) {
	f.mu.Lock()
	rival := f.plan.Rival
	f.mu.Unlock()
	if rival != nil {
		rival(context.WithoutCancel(ctx))
	}
}

var errInjected = errors.New("storetest: the test has injected this error")

func injected(k store.Kind) error { return &store.Error{Kind: k, Err: errInjected} }

// Read implements [store.Operations]. Read can fail at the point ReadDown.
func (f *faults) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if f.down(ReadDown) {
		return store.Record{}, injected(store.KindUnavailable)
	}
	f.reached()
	return f.ops.Read(ctx, id)
}

// Swap implements [store.Operations]. Swap can fail at each Point whose name begins with Swap, such as SwapDown.
func (f *faults) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	switch {
	case f.down(SwapDown):
		return store.Record{}, injected(store.KindUnavailable)
	case f.pass(SwapRetry):
		return store.Record{}, injected(store.KindRetry)
	case f.pass(SwapTaken):
		f.overtaken(ctx)
		rec, err := f.ops.Read(context.WithoutCancel(ctx), c.ID)
		if err != nil {
			return rec, err
		}
		return rec, injected(store.KindTaken)
	case f.pass(SwapLostUndone):
		return store.Record{}, injected(store.KindLost)
	case f.pass(SwapLostApplied):
		rec, err := f.ops.Swap(context.WithoutCancel(ctx), c)
		if err == nil {
			rec, err = store.Record{}, injected(store.KindLost)
		}
		return rec, err
	case f.pass(SwapLostLater):
		return store.Record{}, f.later(func() { _, _ = f.ops.Swap(context.WithoutCancel(ctx), c) })
	}
	f.reached()
	return f.ops.Swap(ctx, c)
}

// Begin implements [store.Store].
func (f *Faults[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	switch {
	case f.down(BeginDown):
		return nil, store.Record{}, injected(store.KindUnavailable)
	case f.pass(BeginRetry):
		return nil, store.Record{}, injected(store.KindRetry)
	}
	f.reached()
	txn, rec, err := f.s.Begin(ctx, opts)
	if txn != nil {
		txn = &faultyTxn[TX]{Transaction: txn, f: f}
	}
	return txn, rec, err
}

// Join implements [store.Joiner] if the underlying store is a Joiner.
func (f *Faults[TX]) Join(ctx context.Context, tx TX, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	j, ok := store.As[store.Joiner[TX]](f.s)
	if !ok {
		return nil, store.Record{}, &store.Error{Kind: store.KindMisused, Err: errors.New("storetest: the tested store does not implement store.Joiner")}
	}
	if f.down(JoinDown) {
		return nil, store.Record{}, injected(store.KindUnavailable)
	}
	txn, rec, err := j.Join(ctx, tx, opts)
	if txn != nil {
		txn = &faultyTxn[TX]{Transaction: txn, f: f, joined: true}
	}
	return txn, rec, err
}

type faultyTxn[TX any] struct {
	store.Transaction[TX]
	f      *Faults[TX]
	joined bool // the transaction is the caller's: its claims stay, and it is not committed here
	gone   bool // the connection is lost
}

func (t *faultyTxn[TX]) Unwrap() any { return t.Transaction }

func (t *faultyTxn[TX]) Commit(ctx context.Context, c store.Change) error {
	var kind store.Kind
	switch f := t.f; {
	case t.gone: // rolled back already
		return injected(store.KindUnavailable)
	case f.down(CommitDown):
		kind = store.KindUnavailable
	case f.pass(CommitRetry):
		kind = store.KindRetry
	// A transaction without an operation has no rival.
	case !c.ID.IsZero() && f.pass(CommitTaken):
		kind = store.KindTaken
	case !t.joined && f.pass(CommitLostUndone):
		kind = store.KindLost
	case !t.joined && f.pass(CommitLostApplied):
		if err := t.Transaction.Commit(context.WithoutCancel(ctx), c); err != nil {
			return err
		}
		return injected(store.KindLost)
	case !t.joined && f.pass(CommitLostLater):
		return f.later(func() { _ = t.Transaction.Commit(context.WithoutCancel(ctx), c) })
	default:
		return t.Transaction.Commit(ctx, c)
	}
	// WithoutCancel, because the database rolls back even if the caller has given up.
	if err := t.Transaction.Rollback(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	// Only after the rollback: before it, the rival would wait for this claim.
	if kind == store.KindTaken && !t.joined {
		t.f.overtaken(ctx)
	}
	return injected(kind)
}

func (t *faultyTxn[TX]) Rollback(ctx context.Context) error {
	if !t.f.down(RollbackDown) {
		return t.Transaction.Rollback(ctx)
	}
	t.gone = true
	if err := t.Transaction.Rollback(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return injected(store.KindUnavailable)
}
