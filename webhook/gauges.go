package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Gauges returns a source of gauges (current numbers for a monitoring system) for all tenants in db: the numbers
// of waiting deliveries, of endpoints with due deliveries, of endpoints with an open circuit (after failures, the
// relay tries only single deliveries), of disabled endpoints, and of running relays. The source of gauges reads
// only the database, so the source also works while no relay runs.
func Gauges(db sqlplane.Database) gauge.Func {
	return func(ctx context.Context) (values []gauge.Value, err error) {
		g := &gauges{ctx: ctx, db: db}
		var now, since dialect.Time
		var due int64
		g.read(dialect.DueEndpoints, &due, &since, &now)
		age := 0.0
		if due > 0 {
			// The clock of the database may have jumped back.
			age = max(0, time.Time(now).Sub(time.Time(since)).Seconds())
		}
		values = []gauge.Value{
			{Name: gaugename.WebhookDeliveries, Number: g.count(fmt.Sprintf("select count(*) from (select 1 as one from once_webhook_delivery limit %d) waiting", upkeep.MaxBacklog))},
			{Name: gaugename.WebhookDueEndpoints, Number: float64(due)},
			{Name: gaugename.WebhookDueOldestAge, Number: age},
			{Name: gaugename.WebhookCircuitsOpen, Number: g.count("select count(*) from once_webhook_state s join once_webhook_endpoint e on e.id = s.endpoint where s.circuit_until > NOW and e.disabled_at is null")},
			{Name: gaugename.WebhookRelays, Number: g.count("select count(*) from once_webhook_hold_node where work = '" + holdWork + "' and expires > NOW")},
		}
		for _, by := range []Disabled{DisabledByPerson, DisabledByGone, DisabledByFailing} {
			n := g.count("select count(*) from once_webhook_endpoint where deleted_at is null and disabled_at is not null and disabled_by = '" + string(by) + "'")
			values = append(values, gauge.Value{Name: gaugename.WebhookDisabledEndpoints, Label: string(by), Number: n})
		}
		if g.err != nil {
			return nil, g.err
		}
		return values, nil
	}
}

// gauges reads numbers from the database. After an error, it reads no more.
type gauges struct {
	ctx context.Context //nolint:containedctx // the context of one call of the source
	db  sqlplane.Database
	err error
}

func (g *gauges) read(query string, to ...any) {
	if g.err == nil {
		g.err = g.db.Pool().Query(g.ctx, store.Statement{SQL: dialect.Text(g.db.Dialect(), query)}, func(row sqlplane.Row) error { return row.Scan(to...) })
	}
}

func (g *gauges) count(query string) float64 {
	var n int64
	g.read(query, &n)
	return float64(n)
}

// Gauges implements [gauge.Source]. Gauges returns how many running requests of this relay have already taken
// longer than a second.
func (r *Relay) Gauges(context.Context) ([]gauge.Value, error) {
	return []gauge.Value{{Name: gaugename.WebhookSlowRequests, Number: float64(r.slow())}}, nil
}

// slow returns how many running requests are slow, with or without a place among the slow ones.
func (r *Relay) slow() int {
	// Run replaces the board when it begins.
	r.boarding.Lock()
	b := r.board
	r.boarding.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slow + len(b.stuck)
}
