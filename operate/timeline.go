package operate

import (
	"context"
	"slices"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store/sqlplane"
)

// Attempt is a row of the attempt log (package attemptlog): one call of the engine.
type Attempt struct {
	At            time.Time     `json:"at"` // when the attempt ended
	Scope         string        `json:"scope"`
	Outcome       string        `json:"outcome"`
	Effect        string        `json:"effect"`
	From          string        `json:"from,omitempty"`
	To            string        `json:"to,omitempty"`
	Cause         string        `json:"cause,omitempty"`
	Attempt       int64         `json:"attempt,omitempty"` // the number of the attempt, as the client has sent it
	Runs          int64         `json:"runs"`
	RequestID     string        `json:"request_id,omitempty"`
	CorrelationID string        `json:"correlation_id,omitempty"`
	Node          string        `json:"node,omitempty"`
	LockWait      time.Duration `json:"lock_wait_ns"`
	Waited        time.Duration `json:"waited_ns"`
	Handler       time.Duration `json:"handler_ns"`
	Commit        time.Duration `json:"commit_ns"`
	Total         time.Duration `json:"total_ns"`
}

// Timeline has the attempts with one idempotency key, and the acts of operators on the operation with this key; both lists begin with the oldest.
type Timeline struct {
	Attempts []Attempt `json:"attempts"`         // the last attempts
	Total    int       `json:"attempts_total"`   // how many attempts the log has
	Dropped  int64     `json:"attempts_dropped"` // how many attempts at any key were not logged, because the log's buffer was full; some of these attempts may be attempts at this key
	Audit    []Entry   `json:"audit"`
}

// Timeline returns the last attempts with the given key (at most limit attempts), and the changes that operators have made to the operation with this
// key. To list the reads of operators, use [Keys.Audit]. Scope "" means all scopes.
func (a *Keys) Timeline(ctx context.Context, scope, key string, limit int) (tl Timeline, err error) {
	if tl, err = a.attempts(ctx, scope, key, limit); err == nil {
		tl.Audit, err = a.acts(ctx, scope, key)
	}
	return tl, err
}

// attempts returns a timeline without its audit.
func (a *Keys) attempts(ctx context.Context, scope, key string, limit int) (tl Timeline, err error) {
	if err := a.need(ctx, "once_attempt"); err != nil {
		return tl, err
	}
	where, args := named(scope, key)
	pool := a.db.Pool()
	tl.Attempts, err = collect(ctx, pool, a.statement("select "+attemptColumns+" from once_attempt where "+where+` order by at desc, id desc limit ?`, append(slices.Clip(args), limit)...), scanAttempt)
	if err != nil {
		return tl, err
	}
	// The query reads the latest attempts, and the list begins with the oldest one.
	slices.Reverse(tl.Attempts)
	err = pool.Query(ctx, a.statement("select count(*) from once_attempt where "+where, args...), func(row sqlplane.Row) error { return row.Scan(&tl.Total) })
	if err != nil {
		return tl, err
	}
	err = pool.Query(ctx, a.statement("select coalesce(sum(dropped), 0) from once_attempt where key_hash = ''"), func(row sqlplane.Row) error { return row.Scan(&tl.Dropped) })
	return tl, err
}

// acts returns the changes that operators have made to the operations with this key.
func (a *Keys) acts(ctx context.Context, scope, key string) ([]Entry, error) {
	if err := a.need(ctx, "once_audit"); err != nil {
		return nil, err
	}
	where, args := named(scope, key)
	return collect(ctx, a.db.Pool(), a.statement(auditColumns+where+" and action <> 'show' order by id", args...), scanEntry)
}

const attemptColumns = `at, scope, outcome, effect, from_state, to_state, cause, attempt, runs, request_id, correlation_id, node,
 lock_wait_us, waited_us, handler_us, commit_us, total_us`

func scanAttempt(row sqlplane.Row) (a Attempt, err error) {
	us := [5]int64{}
	err = row.Scan((*dialect.Time)(&a.At), &a.Scope, &a.Outcome, &a.Effect, &a.From, &a.To, &a.Cause, &a.Attempt, &a.Runs, &a.RequestID, &a.CorrelationID, &a.Node,
		&us[0], &us[1], &us[2], &us[3], &us[4])
	a.At = shown(a.At)
	for i, d := range []*time.Duration{&a.LockWait, &a.Waited, &a.Handler, &a.Commit, &a.Total} {
		*d = time.Duration(us[i]) * time.Microsecond
	}
	return a, err
}

// named returns the condition that a row has the hash of key.
func named(scope, key string) (where string, args []any) {
	h := keyname.Hashes(key)
	where, args = "key_hash in (?, ?)", []any{h[0], h[len(h)-1]}
	if scope != "" {
		where, args = where+" and scope = ?", append(args, scope)
	}
	return where, args
}
