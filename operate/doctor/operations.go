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

// operationChecks are the same for all dialects.
var operationChecks = []check{
	{"unknown", askUnknown, "OnceUnknownOutcomes"},
	{"lapsed", askLapsed, "OnceInFlightTooOld"},
	{"waiting", askWaiting, "OnceInFlightTooOld"},
	{"expired", askExpired, "OnceSweeperBehind"},
}

// oldest returns how many operations a condition finds, and the oldest of them: a row
// of its own, so that a person has something to begin with.
func (p *examination) oldest(ctx context.Context, where, by string) (n int, op operate.Operation, err error) {
	err = p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, `select (select count(*) from once_operation where `+where+`), scope, KEY, `+by+`, NOW
 from once_operation where `+where+` order by `+by+` limit 1`)).Scan(&n, &op.Scope, &op.Key, (*dialect.Time)(&op.Since), (*dialect.Time)(&op.Now))
	if err != nil {
		return 0, op, none(err)
	}
	if op.Since.IsZero() {
		op.Since = op.Now
	}
	return n, op, nil
}

func age(op operate.Operation) string { return words.Span(op.Now.Sub(op.Since)) }

func (p *examination) show(op operate.Operation) string {
	return fmt.Sprintf("once keys show %s --scope %s --db %s", words.Quoted(op.Key), words.Quoted(op.Scope), p.URL)
}

func askUnknown(ctx context.Context, p *examination) (Finding, error) {
	n, op, err := p.oldest(ctx, fmt.Sprintf("state = %d and not (%s)", store.StateUnknown, ofSagas), "since")
	if n > 0 {
		return warn(fmt.Sprintf("%d operations whose outcome is unknown, the oldest for %s: they are not retried, and a person must decide", n, age(op)), p.show(op)), err
	}
	return fine("no operation has an unknown outcome"), err
}

func askWaiting(ctx context.Context, p *examination) (Finding, error) {
	n, op, err := p.oldest(ctx, fmt.Sprintf("state = %d and scope not like 'saga/%%' and scope not like 'gateway/%%'", store.StateWaiting), "since") // those wait as long as they have to
	if n > 0 {
		return warn(fmt.Sprintf("%d operations have stopped before their end and wait for their next owner, the oldest began %s ago: a retry of the caller or a lease.Completer goes on with them", n, age(op)), p.show(op)), err
	}
	return fine("no operation waits for its next owner"), err
}

func askLapsed(ctx context.Context, p *examination) (Finding, error) {
	n, op, err := p.oldest(ctx, fmt.Sprintf("state = %d and lease_until <= NOW", store.StateRunning), "lease_until")
	if n > 0 {
		return warn(fmt.Sprintf("%d running operations whose holder has died, the oldest %s ago: no other process has taken them over yet", n, age(op)), p.show(op)), err
	}
	return fine("no operation has lost its holder"), err
}

// expiredBound is how long an expired row may wait for its removal.
const expiredBound = 24 * time.Hour

func askExpired(ctx context.Context, p *examination) (Finding, error) {
	n, op, err := p.oldest(ctx, fmt.Sprintf("state = %d and expires_at <= NOW", store.StateDone), "expires_at")
	if n > 0 && op.Now.Sub(op.Since) > expiredBound {
		return warn(fmt.Sprintf("%d rows have expired, the first one %s ago: no sweeper deletes them", n, age(op)), "once sweep --db "+p.URL), err
	}
	return fine("%d rows have expired and wait to be swept", n), err
}
