// Package storetest tests whether a store keeps the promises of package store. The same suite runs for every
// database:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness[pgx.Tx]{ ... })
//	}
//
// [RunOperations] runs the part of the suite for a store that has no transactions for the user.
//
// The type [Faults] of this package is a store that fails at chosen points.
package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// Harness describes a store for the suite. In the documentation of Harness, an effect is a write that a
// transaction of the store can make, and that can be counted by key, such as a row of a table without a unique
// constraint.
type Harness[TX any] struct {
	// Open returns a store on a new, empty database. The suite calls Open a few times. Open registers
	// clean-up functions on tb, which close all connections that Open has opened.
	Open func(tb testing.TB) store.Store[TX]

	// Peer returns a second store on the database of s, as another process would open it.
	Peer func(tb testing.TB, s store.Store[TX]) store.Store[TX]

	// Advance moves the clock of s forward by d. Then every existing record is older by d, and s uses the new
	// time for leases, for retention and for Record.Since.
	Advance func(tb testing.TB, s store.Store[TX], d time.Duration)

	// Write makes one effect with the given key in tx.
	Write func(ctx context.Context, tx TX, key string) error

	// Statement returns a statement that makes the same effect as Write, and affects one row.
	Statement func(key string) store.Statement

	// Fail runs a statement that the database refuses, and returns the error.
	Fail func(ctx context.Context, tx TX) error

	// Effects counts the committed effects of key.
	Effects func(tb testing.TB, s store.Store[TX], key string) int

	// Own opens a transaction on the database of s, as the caller of once.Join does. The function end commits
	// the transaction or rolls the transaction back. Own is required if the store is a [store.Joiner].
	Own func(tb testing.TB, s store.Store[TX]) (tx TX, end func(commit bool) error)

	// End ends a handler's transaction by a COMMIT that bypasses the store, and returns an error if the
	// COMMIT was refused. The field End is nil if a handler cannot send a COMMIT through a TX.
	End func(ctx context.Context, tx TX) error

	// Savepoint sets a savepoint in tx, and returns the transaction for statements under the savepoint. The
	// function end releases the savepoint or rolls back to the savepoint. The field Savepoint is nil if TX
	// has no savepoints.
	Savepoint func(ctx context.Context, tb testing.TB, tx TX) (inner TX, end func(keep bool) error)

	// Isolations are the isolation levels that the store offers.
	Isolations []store.Isolation

	// OneLevel says that all isolation levels behave in the same way, so that no test can distinguish them: a
	// transaction either never sees later commits of other transactions, or fails.
	OneLevel bool

	// Set returns a statement that sets the value of key, whether or not key has a value, and Get reads the
	// value. A READ COMMITTED transaction must see a value that another transaction has set since its last
	// read. A REPEATABLE READ transaction must not see a value that another transaction has set since its
	// last read. If each of two SERIALIZABLE transactions has read the key that the other transaction sets,
	// at most one of the two transactions may commit. Set and Get are required unless OneLevel is set.
	Set func(key, value string) store.Statement
	Get func(ctx context.Context, tx TX, key string) (string, error)

	// OneWriter says that only one transaction at a time can write in this database. With OneWriter, a
	// duplicate waits for the transaction of the first caller. While a duplicate waits, a store with OneWriter
	// may return KindBusy, or KindUnavailable if the duplicate's context ends; other stores return StateRunning
	// immediately.
	OneWriter bool

	// ClaimsByCommit says that an operation is claimed only by its commit, see [store.CommitClaimer]. If
	// ClaimsByCommit is set, Begin succeeds for a duplicate while another transaction of the operation is
	// open, and only one of the two transactions commits. If ClaimsByCommit is set, other nodes never see an
	// operation in flight.
	ClaimsByCommit bool

	// MaxResult is the size in bytes of the largest body of a result that the store accepts when all other
	// fields are filled. The store must refuse a body of twice the size MaxResult. If MaxResult is 0, the
	// store accepts every body up to 1 MiB.
	MaxResult int

	// ClockError is by how much the store's clock may lag behind the clock of its database, for a store that
	// only estimates the time.
	ClockError time.Duration

	// Shared, if it is set, is the once.Config.Shared of every engine in the suite. If Shared is set,
	// Advance must remove the entries of Shared, too.
	Shared once.SharedCache

	// Brief leaves out tests with two faults, as the flag -short does: each single call fails in some test,
	// but no test has a second failed call.
	Brief bool
}

// Run runs the whole test suite for the store that h describes. The output of a failed test contains all data
// that is needed to repeat the failure.
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
		testClock(t, open(t, h)) // with its own store: the clock of the other cases must not jump
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

// check fails if the harness is incomplete, because a test that is left out proves nothing.
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
				t.Fatalf("storetest: the field %s of the Harness is not set", name)
			}
		}
	}
}

// suite is a store under test and its harness. The cases share it, and use different keys.
type suite[TX any] struct {
	Harness[TX]
	*operations // the same store, without its transactions
	s, peer     store.Store[TX]
	joins       bool
}

func open[TX any](t *testing.T, h Harness[TX]) *suite[TX] {
	u := &suite[TX]{Harness: h, s: h.Open(t)}
	u.peer = h.Peer(t, u.s)
	if _, u.joins = store.As[store.Joiner[TX]](u.s); u.joins && h.Own == nil {
		t.Fatal("storetest: the store implements store.Joiner, but Harness.Own is not set")
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
	if !u.OneWriter { // with one writer, a case that holds a transaction open would stop the other cases
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
		t.Fatalf("Begin has not granted the claim: record %+v, error %v", rec, err)
	}
	if c, _ := store.As[store.CommitClaimer](txn); !opts.Batch && (c != nil && c.ClaimsByCommit()) != u.ClaimsByCommit {
		t.Errorf("the transaction implements store.CommitClaimer: %t, but Harness.ClaimsByCommit is %t", !u.ClaimsByCommit, u.ClaimsByCommit)
	}
	return txn
}

// busy tries to claim an operation that another transaction holds, and wants to be refused. If claims are made by
// the commit, it wants to be granted.
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
		t.Errorf("Begin has returned the record %+v, error %v, want a second transaction at the same time", rec, err)
	case u.ClaimsByCommit:
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Error(err)
		}
	case txn != nil:
		_ = txn.Rollback(bounded(t))
		t.Error("Begin has granted the claim, although another transaction holds it")
	case u.OneWriter && hasWaited(err):
	case err != nil || rec.State != store.StateRunning:
		t.Errorf("Begin has returned the record %+v, error %v, want a running record", rec, err)
	}
}

func (u *suite[TX]) write(t *testing.T, txn store.Transaction[TX], key string) {
	t.Helper()
	if err := u.Write(bounded(t), txn.Tx(), key); err != nil {
		t.Fatal("Write:", err)
	}
}

// execute stores an atomic operation with one effect as done.
func (u *suite[TX]) execute(t *testing.T, c store.Change) {
	t.Helper()
	txn := u.begin(t, c.ID)
	u.write(t, txn, c.ID.Key)
	if err := txn.Commit(bounded(t), c); err != nil {
		t.Fatal("Commit:", err)
	}
}

// hasWaited reports whether a call of a store with one writer has waited in vain. See Harness.OneWriter.
func hasWaited(err error) bool {
	kind := store.KindOf(err)
	return kind == store.KindBusy || kind == store.KindUnavailable
}
