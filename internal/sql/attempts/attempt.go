package attempts

import "time"

// Attempt is one call of an operation and how it has ended: a row of the attempt log. It has
// neither the key nor the text of an error: both may contain personal data.
type Attempt struct {
	ID    [16]byte  // of this attempt alone
	Ended time.Time // by the clock of this process; the stored time is as long before the database's now

	Scope    string
	KeyHash  string // once.KeyHash of the key
	Outcome  string // executed, replayed, declined, not_stored, the code of an error, or dropped
	Effect   string // the effect that the outcome proves: applied, not applied, in doubt
	From, To string // the operation's state as the call has found and left it; "" means not known
	Cause    string // SQLSTATE, HTTP status, or kind of the store's error; "" for any other error

	Attempt int   // 1, 2, ... of the client; 0: not known
	Runs    int   // of the handler in this call
	Dropped int64 // Outcome dropped: how many attempts have no row, because the log was full

	RequestID, CorrelationID string
	Node                     string

	LockWait, Waited, Handler, Commit, Total time.Duration
}

// columns are the columns of the table, in the order of values.
const columns = `key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped,
 request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us`

// values are the values of a row: string, []byte or int64. The value of the column at is how long ago it was, in
// microseconds.
func (a *Attempt) values() []any {
	return []any{
		a.KeyHash, a.ID[:], a.Scope, time.Since(a.Ended).Microseconds(), a.Outcome, a.Effect, a.From, a.To, a.Cause,
		int64(a.Attempt), int64(a.Runs), a.Dropped, a.RequestID, a.CorrelationID, a.Node,
		a.LockWait.Microseconds(), a.Waited.Microseconds(), a.Handler.Microseconds(), a.Commit.Microseconds(), a.Total.Microseconds(),
	}
}
