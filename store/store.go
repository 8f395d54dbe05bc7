// Package store is the seam between once and the databases that keep its operations.
//
// An operation is one row: absent, then done (atomic work, one insert in the
// business transaction), or absent, running, done (leased work, several
// transactions). Whatever once does to that row is one of three verbs: read it,
// swap it for another under a condition, or open a transaction that claims it.
//
// An [Operations] can read and swap; Redis or DynamoDB can be one. With a Renewer that is
// all that leases and sagas need. A [Store] also lets the user's writes
// share the commit. Parameters are structs and interfaces never grow: a new
// ability is a small optional interface, found with [As].
//
// Every implementation passes the suite in store/storetest.
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

// State is the stage of an operation. The numbers are stored: they never change.
type State uint8

const (
	StateAbsent  State = iota // never seen, released, or expired
	StateRunning              // a holder works on it, under a lease
	StateDone                 // finished: a replay returns Result
	StateUnknown              // an external effect may have happened and its holder is gone
	StateWaiting              // begun, and held by no owner: its next owner goes on with it
)

// String returns the word that logs, tables and the CLI use.
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

// Record is one operation as the store knows it.
type Record struct {
	State       State
	Fingerprint []byte // version byte and hash; empty if nothing was fingerprinted
	Result      Result // of an operation that is done
	Nonce       []byte // 16 random bytes of the writer: after a lost COMMIT they show whether a record is the writer's own
	Request     []byte // the request, encrypted; empty unless capture is on
	Trace       string // W3C traceparent of the call that has written it; "" means no trace
	Name        string // the kind of work, such as "POST /refunds"; "" means no name
	Since       time.Time

	// Leased work only.
	Fence         int64  // grows with every write of an owner and every takeover; each later write must present it
	LeaseExpired  bool   // the state is running, and its lease is over by the store's clock
	RecoveryPoint string // last committed recovery point
	CallStarted   bool   // an external call was begun after RecoveryPoint
	Checkable     bool   // the state is unknown, and the called service can be asked; it is not stored
	Data          []byte // the values that the recovery points have saved
}

// Idle reports whether the operation was begun and no owner works on it: it waits, or the lease of its owner is over.
func (r Record) Idle() bool {
	return r.State == StateWaiting || r.State == StateRunning && r.LeaseExpired
}

// Expect is the condition under which a [Change] applies.
type Expect struct {
	Fence        int64  // the record's fence; 0: the operation must be absent
	Nonce        []byte // and the record's nonce; empty: not compared
	LeaseExpired bool   // and it must be running under a lease that is over by the store's clock; a waiting operation has no lease
}

// Hold is a claim on a running operation, as its holder knows it. The fence alone does not name
// it: an operation that was released or has expired may be claimed again with the same one. So the
// nonce is always compared.
type Hold struct {
	ID    ID
	Fence int64
	Nonce []byte
}

// Forever is a retention that does not end.
const Forever time.Duration = math.MaxInt64

// Change is a compare-and-set of one operation. Next.State Absent releases it.
// A Done operation never changes; it only expires.
type Change struct {
	ID     ID // zero: no operation, only Writes
	Expect Expect
	Next   Record
	Lease  time.Duration // Running: lapses at the store's clock + Lease; 0: never
	Retain time.Duration // Done: expires at the store's clock + Retain; [Forever], which 0 means, too: never
	Writes []Statement   // commit with it, or not at all; [KindMisused] if the store keeps no tables

	// KeepRequest leaves Fingerprint, Request, Trace and Name of the record as they are stored, whatever Next
	// says: the update is a narrow one. It needs a record, so a Fence to expect.
	KeepRequest bool

	// Held are other operations that must be running under these claims when c commits, whether
	// their leases are over or not. Otherwise nothing is applied and the error is [KindTaken].
	// Their claims cannot change until c has committed. A store whose changes reach one operation each
	// refuses Held: [KindMisused].
	Held []Hold

	// StaleAfter, if it is set and the operation must be absent, is when it is too late for c by the
	// store's clock: then nothing is applied, and the error is [KindStale].
	StaleAfter time.Time
}

// Statement is a write that travels with a [Change], in its transaction.
type Statement struct {
	SQL  string // in the store's dialect
	Args []any
	Rows int // rows it must affect, or nothing commits; 0: any number

	// Locks names the rows that s locks until the commit, such as "outbox/refunds/42". Statements
	// that travel with a commit are sent in the order of their Locks, so that two
	// transactions which lock the same rows do not deadlock. "": s is sent before the statements with Locks.
	Locks string
}

// Operations keeps operations.
//
// Expired records are absent. While its row exists, an expired record keeps its Nonce, and
// nothing else: a caller that has lost the answer to its commit learns from the nonce that the
// commit was applied, also if the clock has jumped since. All times are judged by the store's own
// clock.
type Operations interface {
	// Read returns the record of id; its State is [StateAbsent] if no record exists. A server that
	// cannot know that, such as a standby that is behind its primary, is [KindUnavailable].
	Read(ctx context.Context, id ID) (Record, error)

	// Swap applies c, in one transaction of its own, if c.Expect holds and the
	// operation is neither Done nor claimed by an open transaction. Otherwise
	// it writes nothing and returns a [KindTaken] error with the conflicting
	// record, which is empty if it is one of c.Held.
	//
	// A store takes the fence that it is given and remembers no fence of a released or
	// expired operation: a holder is known by its fence and its nonce together.
	Swap(ctx context.Context, c Change) (Record, error)
}

// BeginOptions describe the transaction to open.
type BeginOptions struct {
	ID        ID        // zero: a plain transaction that claims nothing
	Isolation Isolation // of the transaction
	Timeouts  Timeouts  // of the transaction
	Durable   bool      // a record that is found must be as durable as a commit before it is returned, or, in a Join, before the caller's commit is answered
	First     bool      // the caller has never sent this operation before: see below

	// First lets a store skip the look-up, and delay the claim until the first statement.
	// Then that statement fails if the operation is claimed by another transaction, and
	// whatever the user does, Commit and Rollback are [KindTaken]. Without an ID it lets a store send the
	// beginning of the transaction together with the first statement.

	// Fingerprint, Request, Trace, Name and Retain describe the operation, for a store whose claim is a record.
	Fingerprint []byte
	Request     []byte // encrypted
	Trace       string
	Name        string
	Retain      time.Duration // of the result; [Forever]: it does not end

	// Encrypter, if it is set, is the engine's, for a store that keeps intermediate results of the handler. A label binds the bytes to
	// their operation.
	Encrypter interface {
		Encrypt(plain, label []byte) ([]byte, error)
		Decrypt(encrypted, label []byte) ([]byte, error)
	}

	// Waits, if it is set, is where stores of this repository add the waiting times of Begin.
	Waits *waits.Waits

	// IfEnded, if it is set, returns a change that is committed if the user ends the transaction by a statement which the store cannot
	// read. It is called before such a statement, and applied in the transaction. The Change of Commit then
	// replaces it, whatever that expects. The options have no ID. A procedure of MariaDB
	// and MySQL is such a statement; a store whose database has no such statement ignores it.
	IfEnded func() Change

	// Optimistic, if it is set, lets a store delay claim and look-up, and send them together with the user's first statement. The statement runs
	// only if the operation is free and absent: then Optimistic is called. Otherwise it fails, and whatever the user does, Commit and Rollback
	// are [KindTaken]. A store may ignore it.
	Optimistic func()

	// Batch says that no statement is run on the transaction: all writes will
	// be in Change.Writes. A store may then delay everything until Commit and do it
	// in one round trip.
	Batch bool

	// StaleAfter, if it is set, is when it is too late to execute: from then on, by the
	// store's clock as it is read after the look-up, an operation that is absent is not
	// granted but an error of kind [KindStale]. First then has no effect.
	StaleAfter time.Time

	// Refuse, if it is set, is for tests: it is asked before each statement of the handler. If it reports true, the database is sent a
	// statement that fails in its place. The store's own statements do not ask it. A store may ignore it.
	Refuse func() bool
}

// Store is an Operations in the user's own database.
type Store[TX any] interface {
	Operations

	// Begin opens a transaction, claims the operation for as long as it lasts,
	// and looks its record up, which is [StateAbsent]. If there is nothing to execute, Transaction is nil, no
	// connection is held, and the record says why: Done, Unknown or Running
	// (which includes "claimed by another transaction"). A server that cannot claim for all
	// others, such as a standby, is [KindUnavailable], unless it has a Done record to return that
	// need not be durable.
	Begin(ctx context.Context, opts BeginOptions) (Transaction[TX], Record, error)
}

// Transaction is an open transaction that holds the claim of one operation. Exactly one
// of Commit and Rollback is called, once.
type Transaction[TX any] interface {
	// Tx returns the transaction for the user's statements.
	Tx() TX

	// Commit writes c as Swap would, all of it and under c.Expect, and commits. c.ID is the
	// operation that was claimed; a transaction that has claimed nothing takes any. After an error
	// nothing was applied, except [KindLost] and [KindEnded]. The transaction is over in every
	// case.
	Commit(ctx context.Context, c Change) error

	// Rollback undoes everything. [KindEnded] means that the user had
	// committed before; [KindRetry], that the transaction has read data that was then not
	// committed; [KindBusy], that its time was over before; and [KindTaken], that a delayed
	// claim was refused because another transaction holds it. [KindLost] means that the user may have committed before:
	// reading the record finds out. Any other error only means that the connection was given up.
	Rollback(ctx context.Context) error
}

// Timeouts bound the waits of a transaction, so that one that is stuck or whose
// process has been stopped does not hold up the others for ever. After a timeout nothing is
// applied, and the store's error is [KindBusy] or [KindUnavailable]. Zero means the bound that the database is
// configured with, and a stricter bound there always applies. A store whose database does not
// know a bound ignores it, and says so in its documentation.
//
// Servers enforce Lock, Statement and Idle. If a server falls silent while its connection
// stays open, the client's own clock ends the wait: at the beginning of a transaction after Acquire
// and Lock together, and for a statement of the handler, if Statement is set, after Statement
// and Acquire.
type Timeouts struct {
	Acquire   time.Duration // for a connection of the pool, and then for the answer to the statement that begins the transaction on it
	Lock      time.Duration // for a lock that another transaction holds
	Statement time.Duration // for the end of one statement
	Idle      time.Duration // for the next statement, while the handler computes or is stopped
}

// Isolation of a transaction.
type Isolation uint8

const (
	DefaultIsolation Isolation = iota // the level that the database is configured with
	ReadCommitted
	RepeatableRead
	Serializable
)
