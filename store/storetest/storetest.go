// Package storetest proves that a store keeps the promises of package store: one
// suite for every database.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness[pgx.Tx]{ ... })
//	}
//
// [RunOperations] is the part of it for a store that has no transactions of the user.
//
// It also has [Faults], a store that fails at chosen points.
package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// Harness describes a store for the suite. An effect is a write
// that transactions of the store can make and that can be counted by key, such as
// a row of a table with no unique constraint.
type Harness[TX any] struct {
	// Open returns a store on an empty database of its own. It is called a few
	// times. tb's clean-up closes what it has opened.
	Open func(tb testing.TB) store.Store[TX]

	// Peer returns a second handle on the database of s, as another process has it.
	Peer func(tb testing.TB, s store.Store[TX]) store.Store[TX]

	// Advance moves the clock by which s judges leases, retention and Since: for
	// every record that is there already, d more has passed.
	Advance func(tb testing.TB, s store.Store[TX], d time.Duration)

	// Write makes one effect.
	Write func(ctx context.Context, tx TX, key string) error

	// Statement is Write as a statement that affects one row.
	Statement func(key string) store.Statement

	// Fail runs a statement that the database refuses, and returns its error.
	Fail func(ctx context.Context, tx TX) error

	// Effects counts the committed effects of key.
	Effects func(tb testing.TB, s store.Store[TX], key string) int

	// Own opens a transaction on the database of s as the caller of once.Join
	// does; end commits it or rolls it back. Needed if the store is a Joiner.
	Own func(tb testing.TB, s store.Store[TX]) (tx TX, end func(commit bool) error)

	// End ends a handler's transaction by a raw COMMIT, behind the store's back,
	// and returns an error if that was refused. nil if TX knows no such thing.
	End func(ctx context.Context, tx TX) error

	// Savepoint sets a savepoint in tx, and returns the transaction for statements in it; end
	// releases it or rolls back to it. nil if TX knows no such thing.
	Savepoint func(ctx context.Context, tb testing.TB, tx TX) (inner TX, end func(keep bool) error)

	// Isolations are the levels that the store offers.
	Isolations []store.Isolation

	// OneLevel says that all levels are the same, so that no test can distinguish
	// them: a transaction either never sees later commits of others, or fails.
	OneLevel bool

	// Set is a statement that gives key a value, whether it had one or not, and Get reads
	// it. READ COMMITTED must see what another transaction has set since it read before,
	// REPEATABLE READ must not, and two SERIALIZABLE transactions that have each read what
	// the other one sets must not both commit. Needed unless there is one level.
	Set func(key, value string) store.Statement
	Get func(ctx context.Context, tx TX, key string) (string, error)

	// OneWriter says that one transaction at a time can write in this database. A
	// duplicate then waits for the holder's transaction, and may be answered with
	// KindBusy, or KindUnavailable if its context ends, where others answer StateRunning at once.
	OneWriter bool

	// ClaimsByCommit says that only a commit claims, see [store.CommitClaimer]: a duplicate is granted
	// while another transaction is open, and of both one commits. No other node gets "in flight".
	ClaimsByCommit bool

	// MaxResult is the size in bytes of the largest body of a result that the store accepts with all other
	// fields filled; twice as much must be refused. 0: every body up to 1 MiB is accepted.
	MaxResult int

	// ClockError is how far the store's clock may be behind, if the store only estimates the time of its database.
	ClockError time.Duration

	// Shared, if it is set, is the once.Config.Shared of every engine. Advance then removes its entries, too.
	Shared once.SharedCache

	// Brief leaves out the pairs of faults, as -short does: each call fails, and no second call after it.
	Brief bool
}

// Run runs the suite. A failure prints everything that is needed to run it again.
func Run[TX any](t *testing.T, h Harness[TX]) {
	h.check(t)
	u := open(t, h)
	for _, g := range []struct {
		name  string
		cases func(*testing.T, *suite[TX])
	}{
		{"Record", func(t *testing.T, u *suite[TX]) { testRecord(t, u.operations) }},
		{"ForeignText", testForeignBegin[TX]},
		{"Swap", testClaimed[TX]},
		{"Txn", testTxn[TX]},
		{"Join", testJoin[TX]},
		{"SQL", testSQL[TX]},
		{"LostAnswers", func(t *testing.T, u *suite[TX]) { testLostAnswers(t, u.operations) }},
		{"Engine", testEngine[TX]},
		{"Race", testRace[TX]},
	} {
		t.Run(g.name, func(t *testing.T) {
			u.parallel(t)
			g.cases(t, u)
		})
	}
	t.Run("Clock", func(t *testing.T) {
		u.parallel(t)
		testClock(t, open(t, h)) // a store of its own: the clock of the others must not jump
	})
	t.Run("Lease", func(t *testing.T) {
		u.parallel(t)
		testLeases(t, open(t, h).operations)
	})
	t.Run("Sweep", func(t *testing.T) {
		u.parallel(t)
		testSweep(t, open(t, h))
	})
	t.Run("Until", func(t *testing.T) {
		u.parallel(t)
		testUntil(t, open(t, h))
	})
	t.Run("Forever", func(t *testing.T) {
		u.parallel(t)
		testForever(t, open(t, h))
	})
	t.Run("Faults", func(t *testing.T) {
		u.parallel(t)
		testFaults(t, open(t, h))
	})
}

// check fails if the harness is incomplete: a test that is left out proves nothing.
func (h Harness[TX]) check(t *testing.T) {
	v := reflect.ValueOf(h)
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "Own", "End", "Savepoint", "OneWriter", "OneLevel", "ClaimsByCommit", "MaxResult", "ClockError", "Shared", "Brief":
		default:
			if h.OneLevel && (name == "Set" || name == "Get") {
				continue
			}
			if v.Field(i).IsZero() {
				t.Fatalf("storetest: the harness has no %s", name)
			}
		}
	}
}

// suite is a store under test and its harness. Cases share it, and keep apart by
// their keys.
type suite[TX any] struct {
	Harness[TX]
	*operations // the same store, as far as it reads and swaps
	s, peer     store.Store[TX]
	joins       bool
}

func open[TX any](t *testing.T, h Harness[TX]) *suite[TX] {
	u := &suite[TX]{Harness: h, s: h.Open(t)}
	u.peer = h.Peer(t, u.s)
	if _, u.joins = store.As[store.Joiner[TX]](u.s); u.joins && h.Own == nil {
		t.Fatal("storetest: the store is a Joiner, but the harness has no Own")
	}
	u.operations = operationsOf(u)
	return u
}

// engine returns an engine on s.
func (u *suite[TX]) engine(s store.Store[TX], cfg once.Config) *once.Engine[TX] {
	cfg.Shared = u.Shared
	return once.New(s, cfg)
}

func (u *suite[TX]) parallel(t *testing.T) {
	if !u.OneWriter { // there, a case that holds a transaction open would stop the others
		t.Parallel()
	}
}

// begin opens a transaction that must be granted.
func (u *suite[TX]) begin(t *testing.T, id store.ID) store.Transaction[TX] {
	t.Helper()
	return u.granted(t, store.BeginOptions{ID: id})
}

func (u *suite[TX]) granted(t *testing.T, opts store.BeginOptions) store.Transaction[TX] {
	t.Helper()
	txn, rec, err := u.s.Begin(bounded(t), opts)
	if err != nil || txn == nil {
		t.Fatalf("Begin: not granted: record %+v, error %v", rec, err)
	}
	if c, _ := store.As[store.CommitClaimer](txn); !opts.Batch && (c != nil && c.ClaimsByCommit()) != u.ClaimsByCommit {
		t.Errorf("the transaction claims by its Commit: %t, the harness says %t", !u.ClaimsByCommit, u.ClaimsByCommit)
	}
	return txn
}

// busy asks for a claim that another transaction holds, if claims are held.
func (u *suite[TX]) busy(t *testing.T, s store.Store[TX], id store.ID) {
	t.Helper()
	ctx := bounded(t)
	if u.OneWriter {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
	}
	txn, rec, err := s.Begin(ctx, store.BeginOptions{ID: id})
	switch {
	case u.ClaimsByCommit && (err != nil || txn == nil):
		t.Errorf("Begin: record %+v, error %v, want a transaction beside the other one", rec, err)
	case u.ClaimsByCommit:
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Error(err)
		}
	case txn != nil:
		_ = txn.Rollback(bounded(t))
		t.Error("Begin: granted, while another transaction holds the claim")
	case u.OneWriter && hasWaited(err):
	case err != nil || rec.State != store.StateRunning:
		t.Errorf("Begin: record %+v, error %v, want a Running record", rec, err)
	}
}

func (u *suite[TX]) write(t *testing.T, txn store.Transaction[TX], key string) {
	t.Helper()
	if err := u.Write(bounded(t), txn.Tx(), key); err != nil {
		t.Fatal("Write:", err)
	}
}

// execute runs an atomic operation with one effect.
func (u *suite[TX]) execute(t *testing.T, c store.Change) {
	t.Helper()
	txn := u.begin(t, c.ID)
	u.write(t, txn, c.ID.Key)
	if err := txn.Commit(bounded(t), c); err != nil {
		t.Fatal("Commit:", err)
	}
}

// hasWaited reports whether a call of a store with one writer has waited in vain, see Harness.OneWriter.
func hasWaited(err error) bool {
	kind := store.KindOf(err)
	return kind == store.KindBusy || kind == store.KindUnavailable
}
