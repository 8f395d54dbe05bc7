package deadletter

import (
	"context"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Gauges implements [gauge.Source]. Gauges returns how many letters wait for the decision of a person, and
// how many letters wait for another attempt in a redrive.
func (l *Letters) Gauges(ctx context.Context) ([]gauge.Value, error) {
	const query = "select count(*) from (select 1 from once_deadletter where state = ? limit ?) d"
	var dead int64
	err := l.db.Pool().Query(ctx, l.statement(query, string(StateDead), int64(upkeep.MaxBacklog)), func(row sqlplane.Row) error { return row.Scan(&dead) })
	if err != nil {
		return nil, err
	}
	return []gauge.Value{{Name: gaugename.DeadLetters, Number: float64(dead)}}, nil
}
