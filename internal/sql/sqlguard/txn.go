package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/oncelib/once/internal/sql/txlimit"
)

// Txn is the state of the guard for one transaction. The zero value is ready to use. A used Txn cannot guard a second
// transaction, and a Txn must not be copied.
type Txn struct {
	phase           atomic.Uint32
	statements      atomic.Int64
	claims          atomic.Int64
	failure         atomic.Pointer[failure]
	commitForbidden atomic.Bool
	incomplete      atomic.Pointer[error] // see Incomplete
	opaque          atomic.Bool
	temporary       atomic.Bool                   // see HasTemporary
	watch           atomic.Pointer[txlimit.Watch] // the time limits of the transaction; nil: none
	view            atomic.Pointer[Txn]           // if this Txn has joined a guarded transaction: the Txn that guards it

	ending       sync.Mutex // protects the next two fields: the end of a context can end the transaction at any time
	after        []string   // see DoAfter
	ifIncomplete []string   // see IfIncomplete

	// Only the goroutine that has the connection uses the fields below.

	opening    []string                             // see Opening
	last       []Statement                          // see Last
	beforeMark func(context.Context, Session) error // see BeforeMark
	fatal      bool                                 // MySQL: a statement has failed in a way that ends the transaction
	noted      bool                                 // MySQL: noteRollback was called for the fatal statement
	savepoints []savepoint                          // the open savepoints, oldest first
	made       int                                  // the number of savepoints so far, which serves as a clock of the transaction
	isolation  sql.IsolationLevel
	refusal    func() bool // see Refuse
	asked      bool        // the refusal was asked about the next statement already

	openingFailed   error
	unopened        bool // see Unopened
	wroteBeforeMark bool // see WroteBeforeMark
	beforeMarkAt    int  // the clock at the call of beforeMark
}

// The phases of a Txn.
const (
	unused uint32 = iota
	live
	over
)

type savepoint struct {
	name string
	born int // the clock when the savepoint was set
}

// failure contains the first error that was not undone, and the clock at the begin of the earliest failed statement. A rollback
// to an older savepoint undoes all these errors.
type failure struct {
	first *StatementError
	since int
}

type txnKey struct{}

// Context returns a context that activates the guard. If a transaction is begun with this context, it is guarded from its
// beginning. If it was begun without, it is guarded from the first statement with this context. Use the context for nothing
// else: a statement with a Txn outside a transaction is refused.
//
// If ctx ends, the transaction that was begun with it is rolled back, as database/sql does. A COMMIT that was already sent is not
// cancelled: it waits for its answer, for at most ten seconds.
func (t *Txn) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txnKey{}, t)
}

// Err returns the first statement error that was not undone, as a *[StatementError], or nil.
func (t *Txn) Err() error {
	if f := t.real().failure.Load(); f != nil {
		return f.first
	}
	return nil
}

// Statements returns how many statements have reached the database in this transaction, including failed ones. Commands on
// savepoints and statements of the guard do not count. A caller with its own statements in the transaction uses the
// difference of two calls.
func (t *Txn) Statements() int { return int(t.real().statements.Load()) }

// Isolation returns the isolation level that was requested for the transaction.
func (t *Txn) Isolation() sql.IsolationLevel { return t.real().isolation }

// Claims adds n to the number of claims that joins hold in this transaction, and returns the new number.
func (t *Txn) Claims(n int) int { return int(t.real().claims.Add(int64(n))) }

// ErrCommitForbidden is the error of a COMMIT between ForbidCommit and AllowCommit. The transaction was rolled back.
var ErrCommitForbidden = errors.New("once: the handler has called tx.Commit, so the transaction was rolled back. Try: return from the handler without tx.Commit; the engine commits after the handler")

// ForbidCommit makes a COMMIT fail and roll back, until AllowCommit is called. The handler has the transaction during this time,
// and must not end it. already reports whether COMMIT was forbidden before: then only the code that forbade it first may
// allow it.
func (t *Txn) ForbidCommit() (already bool) {
	t = t.real()
	t.watch.Load().Hold(true)
	return t.commitForbidden.Swap(true)
}

// Armed reports whether t guards a transaction, or has joined a guarded one.
func (t *Txn) Armed() bool { return t.real().phase.Load() == live }

// AllowCommit reverts ForbidCommit.
func (t *Txn) AllowCommit() {
	t = t.real()
	t.watch.Load().Hold(false)
	t.commitForbidden.Store(false)
}

// RolledBack reports whether a failed statement may have rolled back the whole transaction.
func (t *Txn) RolledBack(d Dialect) bool {
	t = t.real()
	if d == PostgreSQL {
		return false // PostgreSQL never does this
	}
	return t.rolledBack(d)
}

type joinKey struct{}

// Join is Context for a statement in a transaction that may be guarded already. Then t becomes another view of its guard.
func (t *Txn) Join(ctx context.Context) context.Context {
	return context.WithValue(t.Context(ctx), joinKey{}, true)
}

func joins(ctx context.Context) bool { return ctx.Value(joinKey{}) != nil }

// real returns the Txn that guards the transaction.
func (t *Txn) real() *Txn {
	if v := t.view.Load(); v != nil {
		return v
	}
	return t
}

// Limit sets time limits for the transaction, see [txlimit.Start]. After a limit is reached, its statements and COMMIT are refused.
// The caller must call [Txn.Lift] at the end.
func (t *Txn) Limit(limits txlimit.Limits, end func()) {
	if w := txlimit.Start(limits, end); w != nil {
		t.watch.Store(w)
	}
}

// Lift ends the limits, see [txlimit.Watch.Lift].
func (t *Txn) Lift() error { return t.watch.Load().Lift() }

// Ended returns a channel that is closed when a limit has ended the transaction. It is nil without limits.
func (t *Txn) Ended() <-chan struct{} { return t.watch.Load().Ended() }

// OnEnd makes f run in a separate goroutine when Ended is closed.
func (t *Txn) OnEnd(f func()) (stop func() bool) { return t.watch.Load().OnEnd(f) }

func txnOf(ctx context.Context) *Txn {
	t, _ := ctx.Value(txnKey{}).(*Txn)
	return t
}

// claim binds the Txn to a transaction. release reverts this if the transaction could not begin.
func (t *Txn) claim() error {
	if !t.phase.CompareAndSwap(unused, live) {
		return errUsed
	}
	return nil
}

func (t *Txn) release() { t.phase.Store(unused) }

// fail records the error of a statement that began at the clock since.
func (t *Txn) fail(since int, query string, err error) {
	t.fatal = t.fatal || endsTransaction(err)
	f := &failure{first: &StatementError{Statement: head(query), Err: err}, since: since}
	if standing := t.failure.Load(); standing != nil {
		f.first = standing.first
		f.since = min(since, standing.since)
	}
	t.failure.Store(f)
}

// rolledBack reports whether a failed statement may have rolled back the whole transaction.
func (t *Txn) rolledBack(d Dialect) bool {
	return t.failure.Load() != nil && (d != MySQL || t.fatal)
}

// refuse records that a statement was not allowed, and returns its error.
func (t *Txn) refuse(query string, err error) error {
	t.fail(t.made, query, err)
	return &StatementError{Statement: head(query), Err: err}
}

// admit decides whether a statement may reach the database.
func (t *Txn) admit(cmd command, query string) error {
	switch cmd.verb { //nolint:exhaustive // the others are judged below
	case transactionControl:
		return t.refuse(query, errControl)
	case implicitCommit:
		return t.refuse(query, errImplicit)
	}
	f := t.failure.Load()
	if f == nil {
		return nil
	}
	if cmd.verb == rollbackTo {
		if i := t.find(cmd.name); i >= 0 && t.savepoints[i].born <= f.since {
			return nil // if the database accepts the rollback, it undoes all failed statements
		}
	}
	return &RefusedError{Refused: quote(query), First: f.first}
}

// settle records the outcome of an admitted statement.
func (t *Txn) settle(d Dialect, cmd command, query string, since int, err error) {
	if cmd.verb == ordinary {
		t.statements.Add(1)
	}
	if err != nil {
		t.fail(since, query, err)
		return
	}
	switch cmd.verb { //nolint:exhaustive // the others change nothing
	case setSavepoint:
		if d == MySQL { // a second savepoint of the same name replaces the first
			if i := t.find(cmd.name); i >= 0 {
				t.savepoints = slices.Delete(t.savepoints, i, i+1)
			}
		}
		t.made++
		t.savepoints = append(t.savepoints, savepoint{name: cmd.name, born: t.made})
	case releaseSavepoint:
		if i := t.find(cmd.name); i >= 0 {
			t.savepoints = t.savepoints[:i]
		}
	case rollbackTo:
		t.failure.Store(nil)
		if i := t.find(cmd.name); i >= 0 {
			t.savepoints = t.savepoints[:i+1]
			t.wroteBeforeMark = t.wroteBeforeMark && t.savepoints[i].born > t.beforeMarkAt
		}
	}
}

// find returns the index of the newest savepoint of a name, or -1.
func (t *Txn) find(name string) int {
	for i, sp := range slices.Backward(t.savepoints) {
		if sp.name == name {
			return i
		}
	}
	return -1
}
