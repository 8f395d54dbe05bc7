package saga

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Gauges returns a source of gauges (current numbers for a monitoring system) of all sagas in db: the number of
// sagas that wait although they are due, the number of stuck sagas, and the number of sagas that have passed
// their pivot and have not ended. The source of gauges reads only the database, so the source also works while no
// runner runs.
func Gauges(db sqlplane.Database) gauge.Func {
	return func(ctx context.Context) ([]gauge.Value, error) {
		due, dueFor, err := countDue(ctx, db)
		if err != nil {
			return nil, err
		}
		var now, since dialect.Time
		var stuck, behind int64
		unfinished := store.Statement{SQL: dialect.UnfinishedUnder(db.Dialect(), string(owner.Saga), behindPivot)}
		err = db.Pool().Query(ctx, unfinished, func(row sqlplane.Row) error { return row.Scan(&now, &stuck, &behind, &since) })
		if err != nil {
			return nil, err //nolint:wrapcheck // it is of the store
		}
		return []gauge.Value{
			{Name: gaugename.SagasDue, Number: float64(due)}, {Name: gaugename.SagasDueOldestAge, Number: dueFor},
			{Name: gaugename.SagasStuck, Number: float64(stuck)},
			{Name: gaugename.SagasBehindPivot, Number: float64(behind)}, {Name: gaugename.SagasBehindPivotOldestAge, Number: age(behind, now, since)},
		}, nil
	}
}

// age returns the age of the oldest of n items in seconds, or 0 if n is 0.
func age(n int64, now, since dialect.Time) float64 {
	if n == 0 {
		return 0
	}
	return max(0, time.Time(now).Sub(time.Time(since)).Seconds())
}

// countDue counts the sagas that wait although they are due. It reads only their rows: an index first returns the names of the
// definitions.
func countDue(ctx context.Context, db sqlplane.Database) (n int64, oldest float64, err error) {
	var names []any
	err = db.Pool().Query(ctx, store.Statement{SQL: `with recursive names (name) as (select min(name) from once_saga_due
 union all select (select min(d.name) from once_saga_due d where d.name > names.name) from names where names.name is not null)
 select name from names where name is not null`}, func(row sqlplane.Row) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil || len(names) == 0 {
		return 0, 0, err //nolint:wrapcheck // it is of the store
	}
	each := strings.Join(repeat("select due_at from once_saga_due where name = ? and due_at <= NOW", len(names)), " union all ")
	count := "select NOW, count(*), min(due_at) from (select due_at from (" + each + ") as each_name limit " + strconv.Itoa(upkeep.MaxBacklog) + ") as due"
	var now, since dialect.Time
	err = db.Pool().Query(ctx, store.Statement{SQL: dialect.Text(db.Dialect(), count), Args: names}, func(row sqlplane.Row) error { return row.Scan(&now, &n, &since) })
	return n, age(n, now, since), err //nolint:wrapcheck // likewise
}
