package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// operationChecks are the checks of operations, for all dialects.
var operationChecks = []check{
	{name: "unknown", ask: askUnknown, runbook: "OnceUnknownOutcomes", table: "once_operation"},
	{name: "lapsed", ask: askLapsed, runbook: "OnceInFlightTooOld", table: "once_operation"},
	{name: "waiting", ask: askWaiting, runbook: "OnceInFlightTooOld", table: "once_operation"},
	{name: "expired", ask: askExpired, runbook: "OnceSweeperBehind", table: "once_operation"},
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
func (f found) count(one, many string) string {
	if f.read >= most { // the limit has ended the read, so more may exist
		return fmt.Sprintf("at least %d %s", f.n, many)
	}
	return words.Counted(f.n, one, many)
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
		return warn(fmt.Sprintf("%s an unknown outcome, the oldest operation for %s: a retry does not execute the operation again as long as the outcome is unknown. If the called service can be asked, the next retry or a completer asks the service for the outcome; otherwise an operator must decide the outcome", f.count("operation has", "operations have"), age(f.Operation)), p.show(f.Operation)), err
	}
	return fine("no operation%s has an unknown outcome", f.among()), err
}

func askWaiting(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, p.unfinished(), fmt.Sprintf("state = %d and scope not like 'saga/%%' and scope not like 'gateway/%%'", store.StateWaiting), "since") // sagas and operations of gateways may wait for long, which is not a problem
	if f.n > 0 {
		return warn(fmt.Sprintf("%s stopped before the end, and the oldest operation began %s ago: an operation continues when its caller retries, or when a lease.Completer runs", f.count("operation has", "operations have"), age(f.Operation)), p.show(f.Operation)), err
	}
	return fine("no operation%s has stopped before its end", f.among()), err
}

func askLapsed(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, p.unfinished(), fmt.Sprintf("state = %d and lease_until <= NOW", store.StateRunning), "lease_until")
	if f.n > 0 {
		return warn(fmt.Sprintf("%s a lease that has ended, and the oldest lease ended %s ago: the process that held the lease has died, and no other process has continued the work yet", f.count("running operation has", "running operations have"), age(f.Operation)), p.show(f.Operation)), err
	}
	return fine("no operation%s has a lease that has ended", f.among()), err
}

// expiredBound is how long an expired row may wait until a sweeper deletes it.
const expiredBound = 24 * time.Hour

func askExpired(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, dialect.Expired(p.Dialect, "scope, KEY, expires_at", most), "1 = 1", "expires_at")
	if f.n > 0 && f.Now.Sub(f.Since) > expiredBound {
		return warn(fmt.Sprintf("%s still in the database, and the oldest row expired %s ago: no sweeper deletes expired rows", f.count("expired row is", "expired rows are"), age(f.Operation)), "once sweep --db "+p.URL), err
	}
	return fine("%s until a sweeper deletes them", f.count("expired row waits", "expired rows wait")), err
}
