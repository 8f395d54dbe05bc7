package gauge

import (
	"context"
	"maps"
	"slices"

	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/store/upkeep"
)

// Operations returns a source that counts the unfinished operations in the store s.
func Operations(s upkeep.Backlogger) Func {
	return func(ctx context.Context) ([]Value, error) {
		b, err := s.Backlog(ctx)
		if err != nil {
			return nil, err //nolint:wrapcheck // it is of the store
		}
		values := []Value{
			{Name: gaugename.UnfinishedOperations, Number: float64(min(b.Running.Number+b.Waiting.Number, upkeep.MaxBacklog))},
			{Name: gaugename.UnfinishedOldestAge, Number: max(b.Running.Oldest, b.Waiting.Oldest).Seconds()},
			{Name: gaugename.WaitingOperations, Number: float64(b.Waiting.Number)}, {Name: gaugename.WaitingOldestAge, Number: b.Waiting.Oldest.Seconds()},
			{Name: gaugename.UnknownOperations, Number: float64(b.Unknown.Number)}, {Name: gaugename.UnknownOldestAge, Number: b.Unknown.Oldest.Seconds()},
			{Name: gaugename.ExpiredOperations, Number: float64(b.Expired.Number)}, {Name: gaugename.ExpiredOldestAge, Number: b.Expired.Oldest.Seconds()},
		}
		for _, name := range slices.Sorted(maps.Keys(b.Names)) { // sorted, so that the same names get values of their own after a restart
			n := b.Names[name]
			values = append(values, Value{Name: gaugename.NamedUnfinishedOperations, Label: name, Number: float64(n.Running + n.Waiting)},
				Value{Name: gaugename.NamedWaitingOperations, Label: name, Number: float64(n.Waiting)},
				Value{Name: gaugename.NamedUnknownOperations, Label: name, Number: float64(n.Unknown)})
		}
		return values, nil
	}
}

// Pool returns a source that reports how many connections the connection pool of the store s has. The source
// reads only the counters of the pool, so the source also works while no connection is free. If the pool has
// no limit, the gauge once_pool_max_connections is missing.
func Pool(s upkeep.Pooled) Func {
	return func(context.Context) ([]Value, error) {
		c := s.Connections()
		values := []Value{
			{Name: gaugename.PoolConnections, Label: "in_use", Number: float64(c.InUse)},
			{Name: gaugename.PoolConnections, Label: "idle", Number: float64(c.Idle)},
		}
		if c.Max > 0 {
			values = append(values, Value{Name: gaugename.PoolMaxConnections, Number: float64(c.Max)})
		}
		return values, nil
	}
}
