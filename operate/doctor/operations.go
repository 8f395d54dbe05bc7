package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// operationChecks are the checks of operations, for all dialects.
var operationChecks = []check{
	{"unknown", askUnknown, "OnceUnknownOutcomes"},
	{"lapsed", askLapsed, "OnceInFlightTooOld"},
	{"waiting", askWaiting, "OnceInFlightTooOld"},
	{"expired", askExpired, "OnceSweeperBehind"},
}

// most is how many operations one check reads.
const most = 10_000

// found is how many operations a check has found, and how many it has read. The oldest found operation is an example for the person who reads the
// finding.
type found struct {
	operate.Operation

	n, read int
}

// oldest counts the operations of a table that meet a condition, and returns the oldest one. The table has at most most operations; on MySQL, at most
// most of each state.
func (p *examination) oldest(ctx context.Context, table, where, by string) (f found, err error) {
	err = p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, `with those as (select * from `+table+`)
 select r.n, f.n, coalesce(o.scope, ''), coalesce(o.KEY, ''), o.moment, NOW from (select count(*) as n from those) r
 cross join (select count(*) as n from those where `+where+`) f left join (select scope, KEY, `+by+` as moment from those where `+where+` order by `+by+` limit 1) o on 1 = 1`)).
		Scan(&f.read, &f.n, &f.Scope, &f.Key, (*dialect.Time)(&f.Since), (*dialect.Time)(&f.Now))
	if err != nil {
		return found{}, err
	}
	// No operation meets the condition. An age of 0 is better than an age since year 1.
	if f.Since.IsZero() {
		f.Since = f.Now
	}
	return f, nil
}

// unfinished returns the table of the operations that are not done.
func (p *examination) unfinished() string {
	return dialect.Unfinished(p.Dialect, "scope, KEY, state, since, lease_until", most)
}

// count returns the number of found operations as a text.
func (f found) count() string {
	if f.read >= most { // the limit has ended the read, so more may exist
		return fmt.Sprintf("at least %d", f.n)
	}
	return strconv.Itoa(f.n)
}

// among returns a text that says which operations were read, or "" if all were read.
func (f found) among() string {
	if f.read >= most {
		return fmt.Sprintf(" of the first %d unfinished operations", most)
	}
	return ""
}

func age(op operate.Operation) string { return words.Span(op.Now.Sub(op.Since)) }

func (p *examination) show(op operate.Operation) string {
	return fmt.Sprintf("once keys show %s --scope %s --db %s", words.Quoted(op.Key), words.Quoted(op.Scope), p.URL)
}

func askUnknown(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, p.unfinished(), fmt.Sprintf("state = %d and not (%s)", store.StateUnknown, ofSagas), "since")
	if f.n > 0 {
		return warn(fmt.Sprintf("%s operations whose outcome is unknown, the oldest for %s: they are not retried, and a person must decide", f.count(), age(f.Operation)), p.show(f.Operation)), err
	}
	return fine("no operation%s has an unknown outcome", f.among()), err
}

func askWaiting(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, p.unfinished(), fmt.Sprintf("state = %d and scope not like 'saga/%%' and scope not like 'gateway/%%'", store.StateWaiting), "since") // sagas and operations of gateways may wait for long, which is not a problem
	if f.n > 0 {
		return warn(fmt.Sprintf("%s operations have stopped before their end, the oldest began %s ago: they continue when the caller retries or a lease.Completer runs", f.count(), age(f.Operation)), p.show(f.Operation)), err
	}
	return fine("no operation%s has stopped before its end and waits to be continued", f.among()), err
}

func askLapsed(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, p.unfinished(), fmt.Sprintf("state = %d and lease_until <= NOW", store.StateRunning), "lease_until")
	if f.n > 0 {
		return warn(fmt.Sprintf("%s running operations whose lease has ended because their process died, the oldest %s ago: no other process has taken them over yet", f.count(), age(f.Operation)), p.show(f.Operation)), err
	}
	return fine("no operation%s has lost the process that runs it", f.among()), err
}

// expiredBound is how long an expired row may wait until a sweeper deletes it.
const expiredBound = 24 * time.Hour

func askExpired(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, dialect.Expired(p.Dialect, "scope, KEY, expires_at", most), "1 = 1", "expires_at")
	if f.n > 0 && f.Now.Sub(f.Since) > expiredBound {
		return warn(fmt.Sprintf("%s expired rows are still in the database, the first one expired %s ago: no sweeper deletes them", f.count(), age(f.Operation)), "once sweep --db "+p.URL), err
	}
	return fine("%s expired rows wait to be deleted", f.count()), err
}
