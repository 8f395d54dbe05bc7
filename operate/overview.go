package operate

import (
	"context"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// These are the largest numbers of rows that Overview reads, together fewer than 2,000.
const (
	mostUnfinished = 400
	mostWaiting    = 250
	mostDead       = 250
	mostAttempts   = 100
	mostEndpoints  = 100 // and at most as many states of endpoints
)

// Overview is a summary of a database. If a table does not exist, the pointer fields of Overview that count its rows are nil.
type Overview struct {
	Running, Waiting, Unknown Tally

	Outbox *outbox.Backlog
	Dead   *Tally // the dead letters

	Attempts  *Attempts  // the counts of the last attempts; nil if attempts are not logged
	Endpoints *Endpoints // the endpoints of webhooks
	Now       time.Time
}

// Tally is a number of items, and the time at which the oldest item was created.
type Tally struct {
	Number int
	More   bool // true if Number is a lower bound, because a limit has ended the count
	Oldest time.Time
}

// Attempts counts the last attempts of the attempt log by their outcome.
type Attempts struct {
	Number    int // the number of attempts that were read
	Replayed  int // attempts that got a stored answer
	Conflicts int // attempts whose key was in flight, or was used for another request
	Since     time.Time
}

// Endpoints counts the webhook endpoints to which nothing is sent now.
type Endpoints struct {
	Number   int  // the number of endpoints that were read
	More     bool // true if more endpoints may exist
	Disabled int
	Open     int // endpoints whose circuit breaker is open, so that no attempts are made for a while
}

// Overview counts the work that waits for a process or for an operator. Overview reads fewer than 2,000 rows, by indexes.
func (o *Operator) Overview(ctx context.Context) (v Overview, err error) {
	if err = o.Keys.tally(ctx, &v); err != nil {
		return v, err
	}
	backlog, err := o.Outbox.box.BacklogUpTo(ctx, mostWaiting)
	switch {
	case err == nil:
		v.Outbox = &backlog
	case !sqlguard.IsMissing(err):
		return v, err //nolint:wrapcheck // it is of package outbox
	}
	first := LetterFilter{Filter: deadletter.Filter{Most: mostDead}}
	dead, more, err := o.Letters.Count(ctx, first)
	switch {
	case err == nil:
		v.Dead = &Tally{Number: int(dead), More: more}
	// A database without dead letters has no tables for them.
	case !sqlguard.IsMissing(err):
		return v, err
	}
	if v.Attempts, err = o.Keys.lastAttempts(ctx); err == nil {
		v.Endpoints, err = o.Hooks.tally(ctx)
	}
	return v, err
}

// lastAttempts counts the last attempts of the log by their outcome, or returns nil if the log is empty.
func (a *Keys) lastAttempts(ctx context.Context) (*Attempts, error) {
	var n Attempts
	query := a.statement(`select count(*), coalesce(sum(case when outcome = 'replayed' then 1 else 0 end), 0), coalesce(sum(case when outcome in ('in_flight', 'mismatch', 'conflict') then 1 else 0 end), 0), min(at)
 from (select outcome, at from once_attempt where key_hash <> '' order by at desc limit ?) l`, int64(mostAttempts))
	err := a.db.Pool().Query(ctx, query, func(row sqlplane.Row) error {
		return row.Scan(&n.Number, &n.Replayed, &n.Conflicts, (*dialect.Time)(&n.Since))
	})
	if sqlguard.IsMissing(err) || err == nil && n.Number == 0 {
		return nil, nil //nolint:nilnil // no attempts are logged
	}
	return &n, err
}

// tally counts the first endpoints by the reason why they receive nothing, or returns nil if no endpoint exists.
func (w *Webhooks) tally(ctx context.Context) (*Endpoints, error) {
	var n Endpoints
	query := statement(w.db, `select count(*), coalesce(sum(case when e.disabled_at is not null then 1 else 0 end), 0), coalesce(sum(case when e.disabled_at is null and e.circuit_until > NOW then 1 else 0 end), 0)
 from (select w.id, w.disabled_at, (select s.circuit_until from once_webhook_state s where s.endpoint = w.id) as circuit_until from once_webhook_endpoint w where w.deleted_at is null order by w.id limit ?) e`, int64(mostEndpoints))
	err := w.db.Pool().Query(ctx, query, func(row sqlplane.Row) error { return row.Scan(&n.Number, &n.Disabled, &n.Open) })
	if sqlguard.IsMissing(err) || err == nil && n.Number == 0 {
		return nil, nil //nolint:nilnil // no webhooks are sent
	}
	n.More = n.Number == mostEndpoints
	return &n, err
}

// LastAttempts returns at most 50 of the last 1000 attempts in the attempt log, the newest first. LastAttempts returns only attempts whose outcome is
// the parameter outcome; "" means any outcome. Outcome "conflict" means all attempts whose key was in flight or was used for another request.
func (a *Keys) LastAttempts(ctx context.Context, outcome string) ([]LoggedAttempt, error) {
	const most = 1000
	in, args := "", []any{int64(most)}
	switch outcome {
	case "":
	case "conflict":
		in = " where outcome in ('in_flight', 'mismatch', 'conflict')"
	default:
		in, args = " where outcome = ?", append(args, outcome)
	}
	query := a.statement("select key_hash, "+attemptColumns+" from (select * from once_attempt where key_hash <> '' order by at desc limit ?) l"+in+" order by at desc, id desc limit ?", append(args, int64(DefaultLimit))...)
	return collect(ctx, a.db.Pool(), query, func(row sqlplane.Row) (l LoggedAttempt, err error) {
		l.Attempt, err = scanAttempt(behind{row, &l.KeyHash})
		return l, err
	})
}

// LoggedAttempt is an attempt in a list that has attempts of many keys.
type LoggedAttempt struct {
	Attempt

	KeyHash string `json:"key_hash"`
}

// behind is a row whose first column is scanned into first, and not by its reader.
type behind struct {
	sqlplane.Row
	first any
}

// Scan implements [sqlplane.Row].
func (b behind) Scan(dest ...any) error { return b.Row.Scan(append([]any{b.first}, dest...)...) }

// tally counts the operations that are not done, by their state.
func (a *Keys) tally(ctx context.Context, v *Overview) (err error) {
	if v.Now, err = a.Now(ctx); err != nil {
		return err
	}
	most := mostUnfinished
	if a.db.Dialect() == sqlplane.MySQL { // MySQL reads this number of rows for each of three states
		most /= 3
	}
	query := a.statement("select state, count(*), min(since) from " + dialect.Unfinished(a.db.Dialect(), "state, since", most) + " group by state")
	read := 0
	of := map[store.State]*Tally{store.StateRunning: &v.Running, store.StateWaiting: &v.Waiting, store.StateUnknown: &v.Unknown}
	err = a.db.Pool().Query(ctx, query, func(row sqlplane.Row) error {
		var state store.State
		var is Tally
		if err := row.Scan(&state, &is.Number, (*dialect.Time)(&is.Oldest)); err != nil {
			return err
		}
		read += is.Number
		if t := of[state]; t != nil {
			is.Oldest = shown(is.Oldest)
			*t = is
		}
		return nil
	})
	for _, t := range of {
		// The limit is for all states together, so each of the counts may be too low.
		t.More = read >= most
	}
	return err
}
