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

// Txn is the guard's view of one transaction. The zero value is ready; a used
// one cannot guard a second transaction, and a Txn must not be copied.
type Txn struct {
	phase           atomic.Uint32
	statements      atomic.Int64
	claims          atomic.Int64
	failure         atomic.Pointer[failure]
	commitForbidden atomic.Bool
	incomplete      atomic.Pointer[error] // see Incomplete
	opaque          atomic.Bool
	temporary       atomic.Bool                   // see HasTemporary
	watch           atomic.Pointer[txlimit.Watch] // of its limits of time; nil without
	view            atomic.Pointer[Txn]           // the guard that was there already, of a Txn that has joined it

	ending       sync.Mutex // guards the next two: the end of a context can end the transaction at any time
	after        []string   // see DoAfter
	ifIncomplete []string   // see IfIncomplete

	// The rest is touched only by the goroutine that holds the connection.

	opening    []string                             // see Opening
	last       []Statement                          // see Last
	beforeMark func(context.Context, Session) error // see BeforeMark
	fatal      bool                                 // MySQL: a statement has failed in a way that ends the transaction
	noted      bool                                 // MySQL: it was noted whether that rollback was incomplete
	savepoints []savepoint                          // open ones, oldest first
	made       int                                  // savepoints made so far: the transaction's clock
	isolation  sql.IsolationLevel
	refusal    func() bool // see Refuse
	asked      bool        // of the statement that comes next

	openingFailed   error
	unopened        bool // see Unopened
	wroteBeforeMark bool // see WroteBeforeMark
	beforeMarkAt    int  // the clock at that time
}

// The phases of a Txn.
const (
	unused uint32 = iota
	live
	over
)

type savepoint struct {
	name string
	born int // the clock when it had been made
}

// failure is the first error that was not undone, and when the earliest statement that
// failed was begun: a rollback to any older savepoint undoes them all.
type failure struct {
	first *StatementError
	since int
}

type txnKey struct{}

// Context returns a context that arms the guard: for the transaction that is
// begun with it, or, for a transaction that was begun without, from the first
// statement on that is run with it. Do not use it for anything else; a statement
// that carries a Txn but belongs to no transaction is refused.
//
// Cancelling ctx rolls back the transaction that was begun with it, as
// database/sql does; a COMMIT that is already on its way is not cut short, but
// waits for its answer, for ten seconds at most.
func (t *Txn) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txnKey{}, t)
}

// Err returns the first statement error that was not undone, a *[StatementError],
// or nil.
func (t *Txn) Err() error {
	if f := t.real().failure.Load(); f != nil {
		return f.first
	}
	return nil
}

// Statements returns how many statements have reached the database in this
// transaction, failed ones included; savepoint control and the guard's own statements
// are not counted. A caller that runs statements of its own in the
// transaction takes the difference of two readings.
func (t *Txn) Statements() int { return int(t.real().statements.Load()) }

// Isolation returns the level that was asked for when the transaction was begun.
func (t *Txn) Isolation() sql.IsolationLevel { return t.real().isolation }

// Claims adds n to the claims that joins hold in this transaction, and returns their
// number.
func (t *Txn) Claims(n int) int { return int(t.real().claims.Add(int64(n))) }

// ErrCommitForbidden is the error of a COMMIT between ForbidCommit and AllowCommit. The
// transaction has been rolled back.
var ErrCommitForbidden = errors.New("once: the handler has called tx.Commit, so the transaction was rolled back. Try: return from the handler without tx.Commit; once commits after the handler")

// ForbidCommit has a COMMIT refused, which rolls back, until AllowCommit is called: a handler
// has the transaction, and must not end it. It returns whether COMMIT was forbidden already:
// then only the code that forbade it first may allow it.
func (t *Txn) ForbidCommit() (already bool) {
	t = t.real()
	t.watch.Load().Hold(true)
	return t.commitForbidden.Swap(true)
}

// Armed reports whether t guards a transaction, or has joined one that is guarded.
func (t *Txn) Armed() bool { return t.real().phase.Load() == live }

// AllowCommit undoes ForbidCommit.
func (t *Txn) AllowCommit() {
	t = t.real()
	t.watch.Load().Hold(false)
	t.commitForbidden.Store(false)
}

// RolledBack reports whether a failed statement may have rolled everything back.
func (t *Txn) RolledBack(d Dialect) bool {
	t = t.real()
	if d == PostgreSQL {
		return false // there it never does
	}
	return t.rolledBack(d)
}

type joinKey struct{}

// Join is Context for a statement in a transaction that may be guarded already:
// then t becomes another view of the guard that is there.
func (t *Txn) Join(ctx context.Context) context.Context {
	return context.WithValue(t.Context(ctx), joinKey{}, true)
}

func joins(ctx context.Context) bool { return ctx.Value(joinKey{}) != nil }

// real returns the Txn that guards.
func (t *Txn) real() *Txn {
	if v := t.view.Load(); v != nil {
		return v
	}
	return t
}

// Limit bounds the transaction from now on, see [txlimit.Start]: when a limit is reached, its
// statements and COMMIT are refused. [Txn.Lift] must be called in the end.
func (t *Txn) Limit(limits txlimit.Limits, end func()) {
	if w := txlimit.Start(limits, end); w != nil {
		t.watch.Store(w)
	}
}

// Lift ends the limits, see [txlimit.Watch.Lift].
func (t *Txn) Lift() error { return t.watch.Load().Lift() }

// Ended is closed when a limit has ended the transaction; it is nil without limits.
func (t *Txn) Ended() <-chan struct{} { return t.watch.Load().Ended() }

// OnEnd has f called, in a goroutine of its own, when Ended is closed.
func (t *Txn) OnEnd(f func()) (stop func() bool) { return t.watch.Load().OnEnd(f) }

func txnOf(ctx context.Context) *Txn {
	t, _ := ctx.Value(txnKey{}).(*Txn)
	return t
}

// claim binds the Txn to a transaction; release undoes that if the transaction could not begin.
func (t *Txn) claim() error {
	if !t.phase.CompareAndSwap(unused, live) {
		return errUsed
	}
	return nil
}

func (t *Txn) release() { t.phase.Store(unused) }

// fail records the error of a statement that was begun at the given clock.
func (t *Txn) fail(since int, query string, err error) {
	t.fatal = t.fatal || endsTransaction(err)
	f := &failure{first: &StatementError{Statement: head(query), Err: err}, since: since}
	if standing := t.failure.Load(); standing != nil {
		f.first = standing.first
		f.since = min(since, standing.since)
	}
	t.failure.Store(f)
}

// rolledBack reports whether a failed statement may have rolled everything back.
func (t *Txn) rolledBack(d Dialect) bool {
	return t.failure.Load() != nil && (d != MySQL || t.fatal)
}

// refuse records that a statement was not allowed, and returns the error for it.
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
			return nil // if the database accepts it, it undoes whatever failed
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
		if d == MySQL { // a second savepoint of one name replaces the first
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
