package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
)

// sagaChecks are the checks of sagas, for all dialects. They do not apply to a database without sagas.
var sagaChecks = []check{
	{name: "saga_table", ask: askSagaTable, table: "once_operation"},
	{name: "saga_stuck", ask: askStuckSagas, runbook: "OnceUnknownOutcomes", table: "once_operation"},
	{name: "saga_due", ask: askDueSagas, runbook: "OnceSagasOverdue", table: "once_saga_due"},
}

const ofSagas = "scope like 'saga/%'"

// askSagaTable finds sagas in a database that lacks the table of waiting sagas.
func askSagaTable(ctx context.Context, p *examination) (Finding, error) {
	var n int
	err := p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, "select count(*) from (select 1 from once_operation where scope >= 'saga/' and scope < 'saga0' order by scope, KEY limit "+strconv.Itoa(most)+") as sagas")).Scan(&n)
	if n == 0 || err != nil {
		return Finding{}, err
	}
	sagas := words.Count(n, "saga")
	if n == most {
		sagas = "at least " + sagas
	}
	if ok, err := p.has(ctx, "once_saga_due"); !ok && err == nil {
		return fail(fmt.Sprintf("the database has %s, but the table of waiting sagas (once_saga_due) is missing: a waiting saga does not continue", sagas), "once migrate up --only saga --db "+p.URL), nil
	}
	return fine("the database has %s, and has the table of waiting sagas", sagas), nil
}

func askStuckSagas(ctx context.Context, p *examination) (Finding, error) {
	f, err := p.oldest(ctx, p.unfinished(), fmt.Sprintf("state = %d and %s", store.StateUnknown, ofSagas), "since")
	if f.n > 0 {
		return warn(fmt.Sprintf("%s stuck, and the oldest stuck saga was started %s ago: an operator must decide how the saga continues", f.count("saga is", "sagas are"), age(f.Operation)), "once saga list --state stuck --db "+p.URL), err
	}
	return fine("no saga%s is stuck", f.among()), err
}

// overdueBound is how long a due saga may wait for a runner.
const overdueBound = time.Minute

// askDueSagas finds sagas that wait although they are due. No runner has their definition, or no runner is running.
func askDueSagas(ctx context.Context, p *examination) (Finding, error) {
	var n int
	var oldest, now time.Time
	err := p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, "select count(*), min(due_at), NOW from once_saga_due where due_at <= NOW")).Scan(&n, (*dialect.Time)(&oldest), (*dialect.Time)(&now))
	if late := now.Sub(oldest); err == nil && n > 0 && late > overdueBound {
		return warn(fmt.Sprintf("%s due, and the oldest due saga has waited for %s: no process with the definitions of these sagas runs saga.Runner.Run", words.Counted(n, "saga is", "sagas are"), words.Span(late)), "once saga list --state waiting --db "+p.URL+", and then start a process that runs these sagas"), nil
	}
	return fine("no saga waits for a runner"), err
}
