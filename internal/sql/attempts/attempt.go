package attempts

import "time"

// Attempt is one call of an operation, with its result: a row of the attempt log. It contains neither the key nor the text of
// an error, because both may contain personal data.
type Attempt struct {
	ID    [16]byte  // unique for each attempt
	Ended time.Time // by the clock of this process; the database stores its own time, less the age of the attempt

	Scope    string
	KeyHash  string // once.KeyHash of the key
	Outcome  string // executed, replayed, declined, not_stored, the code of an error, or dropped
	Effect   string // the effect that the outcome proves: applied, not applied, in doubt
	From, To string // the state of the operation before and after the call; "" means not known
	Cause    string // the SQLSTATE, the HTTP status, or the kind of the store's error; "" for other errors

	Attempt int   // the number of the attempt, by the client; 0: not known
	Runs    int   // how often the handler has run in this call
	Dropped int64 // with Outcome dropped: the number of attempts without a row, because the log was full

	RequestID, CorrelationID string
	Node                     string

	LockWait, Waited, Handler, Commit, Total time.Duration
}

// columns contains the columns of the table, in the order of values.
const columns = `key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped,
 request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us`

// values returns the values of a row, as string, []byte or int64. The value of the column at is the age of the attempt in
// microseconds.
func (a *Attempt) values() []any {
	return []any{
		a.KeyHash, a.ID[:], a.Scope, time.Since(a.Ended).Microseconds(), a.Outcome, a.Effect, a.From, a.To, a.Cause,
		int64(a.Attempt), int64(a.Runs), a.Dropped, a.RequestID, a.CorrelationID, a.Node,
		a.LockWait.Microseconds(), a.Waited.Microseconds(), a.Handler.Microseconds(), a.Commit.Microseconds(), a.Total.Microseconds(),
	}
}
