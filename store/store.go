// Package store defines the interface between this library and the databases that keep its
// operations.
//
// In the database, an operation is one row. The row of atomic work (work that is one transaction) is first
// absent and then done: the business transaction inserts the row. The row of leased work, which has several
// transactions, is absent, then running, then done. Package once does three things with the row of an
// operation: it reads the row, swaps the row for another row under a condition, or begins a transaction that
// claims the operation.
//
// A store that implements [Operations] can read and swap rows; examples are stores in Redis and DynamoDB.
// Leases and sagas need only an [Operations] that is also a [Renewer]. A [Store] can also commit the user's
// writes in the same transaction as the row of the operation. The parameters of methods are structs, and
// later versions of this package will not add a method to an interface. A new ability of stores will be a
// small optional interface, which a program finds with [As].
//
// Every implementation passes the test suite in store/storetest.
package store

import (
	"context"
	"math"
	"time"

	"github.com/oncelib/once/internal/base/waits"
)

// ID names one operation.
type ID struct{ Scope, Key string }

// IsZero reports whether id names no operation.
func (id ID) IsZero() bool { return id == ID{} }

// State is the stage of an operation. The database stores the numeric values of the constants, so the values never
// change.
type State uint8

const (
	StateAbsent  State = iota // never seen, released, or expired
	StateRunning              // an owner works on the operation, under a lease
	StateDone                 // finished: a replay returns Result
	StateUnknown              // an external effect may have happened, and the owner that would know its outcome has died
	StateWaiting              // the operation was begun, and no owner works on it now: the next owner continues the operation
)

// String returns the word by which logs, tables and the command line tool name the state.
func (s State) String() string {
	switch s {
	case StateAbsent:
		return "absent"
	case StateRunning:
		return "running"
	case StateDone:
		return "done"
	case StateUnknown:
		return "unknown"
	case StateWaiting:
		return "waiting"
	}
	return "invalid"
}

// Record is one operation as the store keeps it.
type Record struct {
	State       State
	Fingerprint []byte // version byte and hash; empty if the operation has no fingerprint
	Result      Result // set if State is StateDone
	Nonce       []byte // 16 random bytes of the writer; after a lost COMMIT the writer recognises its own record by these bytes
	Request     []byte // the request, encrypted; empty if the engine has no Encrypter
	Trace       string // W3C traceparent of the call that has written the record; "" means no trace
	Name        string // the kind of work, such as "POST /refunds"; "" means no name
	Since       time.Time

	// Fence, LeaseExpired, RecoveryPoint, CallStarted, Checkable and Data are set for leased work only.
	Fence         int64  // grows with every write of an owner and with every takeover; each later write must present the current fence
	LeaseExpired  bool   // true if the state is running and the lease is over by the store's clock
	RecoveryPoint string // the name of the last committed recovery point
	CallStarted   bool   // true if an external call was begun after RecoveryPoint
	Checkable     bool   // true if the state is unknown and the called service can be asked for the outcome; this field is not stored
	Data          []byte // the values that the recovery points have saved
}

// Idle reports whether the operation was begun and no owner works on it: the operation waits for its next
// owner, or the lease of its owner is over.
func (r Record) Idle() bool {
	return r.State == StateWaiting || r.State == StateRunning && r.LeaseExpired
}

// Expect is the condition under which a [Change] applies. The Change applies only if all fields of Expect match the
// record.
type Expect struct {
	Fence        int64  // the fence (a number that grows with every write of an owner) that the record must have; 0 means that the operation must be absent
	Nonce        []byte // the nonce (random bytes of the writer) that the record must have; empty means that nonces are not compared
	LeaseExpired bool   // the operation must be running under a lease that is over by the store's clock; a waiting operation has no lease
}

// Hold is the claim of an owner on a running operation. The fence alone does not identify the claim: an
// operation that was released or has expired may be claimed again with the same fence. So a store always
// compares the nonce, too.
type Hold struct {
	ID    ID
	Fence int64
	Nonce []byte
}

// Forever is a retention that does not end.
const Forever time.Duration = math.MaxInt64

// Change is a compare-and-set of one operation. If Next.State is StateAbsent, the change releases the operation. An
// operation that is done never changes: such an operation can only expire.
type Change struct {
	ID     ID // the operation to change; zero: the change has no operation, only Writes
	Expect Expect
	Next   Record
	Lease  time.Duration // if Next is running: the lease ends at the store's clock + Lease; 0 means that the lease does not end
	Retain time.Duration // if Next is done: the record expires at the store's clock + Retain; [Forever] and 0 mean that the record does not expire
	Writes []Statement   // writes that commit together with the change, or not at all; a store without tables refuses Writes with [KindMisused]

	// KeepRequest leaves Fingerprint, Request, Trace and Name of the stored record unchanged, whatever Next
	// says, so that the update writes fewer columns. KeepRequest needs an existing record, so Expect.Fence
	// must not be 0.
	KeepRequest bool

	// Held are claims on other operations. Each operation of Held must be running under its claim when the
	// change commits, whether its lease is over or not. If an operation of Held is not running under its claim,
	// nothing of the change is applied and the error is [KindTaken]. The store keeps the claims of Held
	// unchanged until the change has committed. A store that can change only one operation in a transaction
	// refuses Held with [KindMisused].
	Held []Hold

	// StaleAfter is the time, by the store's clock, after which the change is too late. StaleAfter applies
	// only if it is set and Expect says that the operation must be absent. After the time StaleAfter nothing
	// of the change is applied, and the error is [KindStale].
	StaleAfter time.Time
}

// Statement is a write that is committed together with a [Change], in the same transaction.
type Statement struct {
	SQL  string // the text of the statement, in the SQL dialect of the store
	Args []any
	Rows int // how many rows the statement must affect: if the statement affects another number of rows, nothing is committed; 0 means any number

	// Locks names the rows that the statement locks until the commit, such as "outbox/refunds/42". The
	// statements of a commit are sent in the order of their Locks, so that two transactions which lock the same
	// rows do not deadlock. Statements with Locks "" are sent before all statements with Locks.
	Locks string
}

// Operations is a store that reads and changes operations.
//
// An expired record counts as absent. As long as the row of an expired record exists, the record keeps its
// Nonce, but no other field. So a caller that has lost the answer to its commit learns from the nonce that the
// commit was applied, even if the clock has jumped forward since. All times are compared with the store's own
// clock.
type Operations interface {
	// Read returns the record of id; its State is [StateAbsent] if no record exists. If the server cannot know whether
	// a record exists, for example because the server is a standby that lags behind its primary, the error is
	// [KindUnavailable].
	Read(ctx context.Context, id ID) (Record, error)

	// Swap applies c, in a transaction of its own, if c.Expect matches the record and the operation is neither
	// done nor claimed by an open transaction. If c.Expect does not match, or if the operation is done or
	// claimed, Swap writes nothing, and returns a [KindTaken] error and the conflicting record. The returned
	// record is empty if the conflict is with one of the operations in c.Held.
	//
	// A store writes the fence of c.Next, and does not remember the fence of a released or expired operation.
	// Therefore an owner is identified only by the fence together with the nonce.
	Swap(ctx context.Context, c Change) (Record, error)
}

// BeginOptions describe the transaction to open.
type BeginOptions struct {
	ID        ID        // the operation that the transaction claims; zero: a plain transaction that claims nothing
	Isolation Isolation // the isolation level of the transaction
	Timeouts  Timeouts  // how long the transaction may wait
	Durable   bool      // a record that is found must be as durable as a commit before Begin returns the record; in a Join, the record must be as durable as a commit before the caller's COMMIT succeeds

	// First says that the caller has never sent this operation before: see once.Attempt.Number. With First, a
	// store may skip the look-up, and delay the claim until the first statement. The first statement fails if
	// another transaction has claimed the operation. If the first statement has failed because of another
	// claim, Commit and Rollback return [KindTaken], whatever the user does. Without an ID, First lets a
	// store send the beginning of the transaction together with the first statement.
	First bool

	// Fingerprint, Request, Trace, Name and Retain describe the operation. A store needs Fingerprint, Request, Trace,
	// Name and Retain if it claims an operation by writing the record of the operation.
	Fingerprint []byte
	Request     []byte // encrypted
	Trace       string
	Name        string
	Retain      time.Duration // the retention of the result; [Forever] means that the retention does not end

	// Encrypter is the Encrypter of the engine, or nil if the engine has no Encrypter. A store that keeps
	// intermediate results of the handler encrypts these results with Encrypter. The ciphertext is bound to
	// the label, which names the operation.
	Encrypter interface {
		Encrypt(plain, label []byte) ([]byte, error)
		Decrypt(encrypted, label []byte) ([]byte, error)
	}

	// Waits, if it is set, collects the waiting times of Begin. Only stores of this repository can use Waits.
	Waits *waits.Waits

	// IfEnded, if it is set, returns a change for the case that the user ends the transaction by a statement
	// which the store cannot parse, such as a call of a procedure on MariaDB or MySQL. The store calls
	// IfEnded before a statement that the store cannot parse, and applies the returned change in the
	// transaction. If the transaction is still open after the statement, the Change of Commit replaces the
	// change of IfEnded, whatever Expect of the Change says. IfEnded is used with a zero ID only. A store
	// that can parse all statements of its database ignores IfEnded.
	IfEnded func() Change

	// Optimistic, if it is set, lets a store delay the claim and the look-up, and send both together with the
	// user's first statement. If the operation is neither claimed nor recorded, the first statement runs, and
	// the store calls the function Optimistic. If the operation is claimed or recorded, the first statement
	// fails, and Commit and Rollback return [KindTaken], whatever the user does. A store may ignore
	// Optimistic.
	Optimistic func()

	// Batch says that the caller runs no statement on the transaction: all writes will be in Change.Writes. With
	// Batch, a store may delay the claim and the look-up until Commit, and do everything in one round trip.
	Batch bool

	// StaleAfter, if it is set, is the time after which the operation must not be executed. The store reads
	// its clock after the look-up. If the time StaleAfter has passed, Begin does not claim an absent
	// operation, but returns a [KindStale] error. If StaleAfter is set, First has no effect.
	StaleAfter time.Time

	// Refuse, if it is set, is for tests: the store calls Refuse before each statement of the handler. If
	// Refuse returns true, the store sends a failing statement to the database instead of the handler's
	// statement. Refuse is not called for the store's own statements. A store may ignore Refuse.
	Refuse func() bool
}

// Store is an implementation of [Operations] in the user's own database.
type Store[TX any] interface {
	Operations

	// Begin opens a transaction, claims the operation until the transaction ends, and looks up the record. If
	// the operation can be executed, the state of the returned record is [StateAbsent]. If the operation
	// cannot be executed, the returned Transaction is nil, no connection is held, and the state of the
	// returned record is the reason: Done, Unknown or Running (which includes an operation that another
	// transaction has claimed). On a server that cannot exclude all other claims, such as a standby, the
	// error is [KindUnavailable], unless the server finds a Done record and opts.Durable is not set.
	Begin(ctx context.Context, opts BeginOptions) (Transaction[TX], Record, error)
}

// Transaction is an open transaction that holds the claim of one operation. The caller must call either Commit or
// Rollback, exactly one time. The documentation of [Joiner] describes the one case in which both Commit and
// Rollback may be called.
type Transaction[TX any] interface {
	// Tx returns the database transaction for the user's statements.
	Tx() TX

	// Commit writes c completely, under the condition c.Expect as Operations.Swap does, and commits the
	// transaction. The field c.ID must name the operation that the transaction has claimed; if the
	// transaction has claimed nothing, c.ID may name any operation. After an error nothing was applied,
	// except after [KindLost] and [KindEnded]. After Commit the transaction is over in every case.
	Commit(ctx context.Context, c Change) error

	// Rollback rolls the transaction back. Rollback returns the following errors:
	//
	//  - [KindEnded]: the user has committed the transaction before.
	//  - [KindRetry]: the transaction has read data that was then not committed.
	//  - [KindBusy]: a time limit of the transaction has ended the transaction before.
	//  - [KindTaken]: a delayed claim was refused, because another transaction holds the operation.
	//  - [KindLost]: the user may have committed before; a look-up of the record shows whether the
	//    user has committed.
	//
	// Any other error of Rollback only means that the connection was closed.
	Rollback(ctx context.Context) error
}

// Timeouts limit the waits of a transaction, so that a transaction which hangs, or whose process was stopped,
// does not block other transactions for ever. After a timeout nothing is applied, and the store's error is
// [KindBusy] or [KindUnavailable]. If a field of Timeouts is zero, the timeout in the configuration of the
// database applies. If the timeout in the configuration of the database is shorter than the field of
// Timeouts, the shorter timeout applies. If a database cannot enforce a timeout, its store ignores the field,
// and the documentation of the store says so.
//
// The database server enforces Lock, Statement and Idle. If a server sends nothing more while its connection
// stays open, the client's own clock ends the wait. At the beginning of a transaction the client waits at
// most for the sum of Acquire and Lock. For a statement of the handler, the client waits at most for the sum
// of Statement and Acquire, if Statement is set.
type Timeouts struct {
	Acquire   time.Duration // waiting for a connection of the pool, and then for the answer to the statement that begins the transaction on this connection
	Lock      time.Duration // waiting for a lock that another transaction holds
	Statement time.Duration // running one statement
	Idle      time.Duration // waiting for the next statement, while the handler computes or its process is stopped
}

// Isolation is the isolation level of a transaction.
type Isolation uint8

const (
	DefaultIsolation Isolation = iota // the level that the database is configured with
	ReadCommitted
	RepeatableRead
	Serializable
)
