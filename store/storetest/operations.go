package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// OperationsHarness describes a store that has no transactions for the user. OperationsHarness is
// the argument of [RunOperations].
type OperationsHarness struct {
	// Open returns an empty store. The suite calls Open a few times. Open registers clean-up functions on tb,
	// which close all connections that Open has opened.
	Open func(tb testing.TB) store.Operations

	// Peer returns a second store on the records of s, as another process would open it.
	Peer func(tb testing.TB, s store.Operations) store.Operations

	// Advance moves the clock of s forward by d. Then every existing record is older by d, and s uses the new
	// time for leases, for retention and for Record.Since.
	Advance func(tb testing.TB, s store.Operations, d time.Duration)

	// OneRecord says that a Change of this store can write only one operation. A store with OneRecord must
	// refuse every Change that has Held; the error is [store.KindMisused].
	OneRecord bool

	// Expires says that the database itself deletes expired records, some time after they expire. If Expires
	// is set, the store's Backlog does not count expired records.
	Expires bool

	// MaxResult and ClockError mean the same as in [Harness].
	MaxResult  int
	ClockError time.Duration
}

// RunOperations runs the part of the suite that needs no transactions. RunOperations is for a store that keeps
// only operations, such as a store in Redis or DynamoDB. A store that keeps only operations has no tables, so
// the store must refuse every Change with Writes: the error is [store.KindMisused].
func RunOperations(t *testing.T, h OperationsHarness) {
	if h.Open == nil || h.Peer == nil || h.Advance == nil {
		t.Fatal("storetest: a required field of the Harness is not set")
	}
	open := func(t *testing.T) *operations {
		s := h.Open(t)
		o := &operations{s: s, peer: h.Peer(t, s), oneRecord: h.OneRecord, expires: h.Expires, maxResult: h.MaxResult, clockError: h.ClockError}
		o.advance = func(tb testing.TB, d time.Duration) { tb.Helper(); h.Advance(tb, s, d) }
		o.ways, o.puts, o.looks = []way{o.bySwap()}, []put{o.putBySwap()}, []look{o.lookByRead()}
		return o
	}
	o := open(t)
	for _, g := range []struct {
		name  string
		cases func(*testing.T, *operations)
	}{
		{"Record", testRecord},
		{"ForeignText", testForeignText},
		{"Swap", testSwap},
		{"LostAnswers", testLostAnswers},
	} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.cases(t, o)
		})
	}
	for _, g := range []struct { // each has its own store, because the other cases must not see time jump
		name  string
		cases func(*testing.T, *operations)
	}{
		{"Clock", testTimes},
		{"Lease", testLeases},
	} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.cases(t, open(t))
		})
	}
}

// Operations returns a harness of the same store for [RunOperations]. The returned harness hides the store's
// transactions.
func (h Harness[TX]) Operations() OperationsHarness {
	of := func(o store.Operations) store.Store[TX] {
		if l, ok := o.(leasedOperations[TX]); ok {
			return l.s
		}
		return o.(plainOperations[TX]).s
	}
	return OperationsHarness{
		Open: func(tb testing.TB) store.Operations { tb.Helper(); return hide(h.Open(tb)) },
		Peer: func(tb testing.TB, o store.Operations) store.Operations { tb.Helper(); return hide(h.Peer(tb, of(o))) },
		Advance: func(tb testing.TB, o store.Operations, d time.Duration) {
			tb.Helper()
			h.Advance(tb, of(o), d)
		},
		MaxResult: h.MaxResult, ClockError: h.ClockError,
	}
}

// plainOperations is a store that can only read and swap.
type plainOperations[TX any] struct{ s store.Store[TX] }

func (o plainOperations[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	return o.s.Read(ctx, id)
}

func (o plainOperations[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if len(c.Writes) > 0 {
		return store.Record{}, &store.Error{Kind: store.KindMisused, Err: errors.New("storetest: the harness has no SQL tables")}
	}
	return o.s.Swap(ctx, c)
}

// leasedOperations is a store that also has the abilities that leases need.
type leasedOperations[TX any] struct {
	plainOperations[TX]
	store.Renewer
	upkeep.Lister
}

// hide returns s without its transactions.
func hide[TX any](s store.Store[TX]) store.Operations {
	r, renews := store.As[store.Renewer](s)
	l, lists := store.As[upkeep.Lister](s)
	if !renews || !lists {
		return plainOperations[TX]{s}
	}
	return leasedOperations[TX]{plainOperations[TX]{s}, r, l}
}

// operations is a store under test, without its transactions.
type operations struct {
	s, peer    store.Operations
	advance    func(tb testing.TB, d time.Duration)
	statement  func(key string) store.Statement       // returns a statement that makes one effect; nil: the store refuses Writes
	effects    func(tb testing.TB, key string) int    // counts the effects of key
	oneRecord  bool                                   // the store refuses Held
	expires    bool                                   // see OperationsHarness
	maxResult  int                                    // see Harness
	clockError time.Duration                          // see Harness
	ways       []way                                  // the ways to apply a Change
	puts       []put                                  // the ways to store an absent operation; the first one is Swap
	looks      []look                                 // the ways to see a record
	claim      func(t *testing.T, id store.ID) func() // claims id in an open transaction, which the returned function rolls back; nil: the store has no transactions
}

// put is a way to apply a Change to an absent operation.
type put struct {
	name  string
	apply func(t *testing.T, c store.Change) error
	blind bool // this way does not look first, so an expired record may refuse the Change
}

// look is a way to see a record.
type look struct {
	name string
	see  func(t *testing.T, id store.ID) store.Record
}

// way is a way to apply a Change.
type way struct {
	name   string
	apply  func(t *testing.T, c store.Change) (store.Record, error)
	tells  bool // apply returns the conflicting record
	undone bool // the caller undoes the Change afterwards
	claims bool // apply claims the operation, which must be absent
}

// claiming returns the ways to apply a Change to an absent operation.
func (o *operations) claiming() []way {
	all := slices.Clone(o.ways)
	for _, p := range o.puts[1:] {
		all = append(all, way{name: p.name + " under a claim", claims: true, apply: func(t *testing.T, c store.Change) (rec store.Record, err error) {
			t.Helper()
			return rec, p.apply(t, c)
		}})
	}
	return all
}

func (o *operations) bySwap() way {
	return way{name: "Swap", tells: true, apply: func(t *testing.T, c store.Change) (store.Record, error) {
		t.Helper()
		return o.s.Swap(bounded(t), c)
	}}
}

func (o *operations) putBySwap() put {
	return put{name: "Swap", apply: func(t *testing.T, c store.Change) error {
		t.Helper()
		_, err := o.s.Swap(bounded(t), c)
		return err
	}}
}

func (o *operations) lookByRead() look { return look{"Read", o.read} }

// newID returns the ID of an operation that no other case uses.
func newID() store.ID { return store.ID{Scope: "storetest", Key: once.NewKey()} }

// bounded returns a context that ends after a minute, so that a case which hangs fails.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// done returns the change that stores an atomic operation as done.
func done(id store.ID, body string) store.Change {
	return change(id, store.Expect{}, store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Body: []byte(body)}})
}

// withEffect returns c with one effect, if the store can make effects.
func (o *operations) withEffect(c store.Change) store.Change {
	if o.statement != nil {
		c.Writes = []store.Statement{o.statement(c.ID.Key)}
	}
	return c
}

func (o *operations) swap(t *testing.T, c store.Change) {
	t.Helper()
	if rec, err := o.s.Swap(bounded(t), c); err != nil {
		t.Fatalf("Swap has returned the error %v and the record %+v", err, rec)
	}
}

// read returns the record as the peer sees it.
func (o *operations) read(t *testing.T, id store.ID) store.Record {
	t.Helper()
	rec, err := o.peer.Read(bounded(t), id)
	if err != nil {
		t.Fatal("Read:", err)
	}
	return rec
}

func (o *operations) wantState(t *testing.T, id store.ID, want store.State) {
	t.Helper()
	if rec := o.read(t, id); rec.State != want {
		t.Errorf("the record is %s, want %s: %+v", rec.State, want, rec)
	}
}

// same checks the record of id, in every way to see it.
func (o *operations) same(t *testing.T, what string, id store.ID, want store.Record) {
	t.Helper()
	for _, l := range o.looks {
		got := l.see(t, id)
		if d := diff(want, got); d != "" {
			t.Errorf("%s: %s: %s", what, l.name, d)
		}
		if got.State != store.StateAbsent && got.Since.IsZero() {
			t.Errorf("%s: %s: Since of the record is zero", what, l.name)
		}
	}
}

// put stores an absent operation, which must succeed.
func (p put) put(t *testing.T, c store.Change) {
	t.Helper()
	if err := p.apply(t, c); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

func (o *operations) wantEffects(t *testing.T, key string, want int) {
	t.Helper()
	if o.effects == nil {
		return
	}
	if n := o.effects(t, key); n != want {
		t.Errorf("the store has %d effects, want %d", n, want)
	}
}

func wantKind(t *testing.T, err error, want store.Kind) {
	t.Helper()
	if err == nil || store.KindOf(err) != want {
		t.Errorf("the error is %v, want an error of kind %q", err, want)
	}
}
