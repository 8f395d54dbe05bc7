package store

import "time"

// Attempt is one call of an operation and how it has ended: a row of the attempt log,
// see package attemptlog. It names neither the key nor what an error says: both may be
// anybody's data.
type Attempt struct {
	ID    [16]byte  // of this attempt alone
	Ended time.Time // by the process clock; what is stored is the store's own, as long before its now

	Scope    string
	KeyHash  string // once.KeyHash of the key
	Outcome  string // executed, replayed, declined, not_stored, the code of an error, or dropped
	Effect   string // what the outcome proves: applied, not applied, in doubt
	From, To string // the operation's state as the call has found and left it; "" is not known
	Cause    string // SQLSTATE, HTTP status, or kind of the store's error; "" is none of these

	Attempt int   // 1, 2, ... of the client; 0: not known
	Runs    int   // of the handler in this call
	Dropped int64 // Outcome dropped: as many attempts have no row, because the log was full

	RequestID, CorrelationID string
	Node                     string

	LockWait, Waited, Handler, Commit, Total time.Duration
}
