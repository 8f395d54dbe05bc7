package hookrelay

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/webhook"
)

// plan is a relay in a process of its own.
type plan struct {
	Database harness.Database
	URL      string
	TTL      time.Duration
}

// CarryOut implements harness.Plan: it runs a relay until it is drained.
func (p plan) CarryOut(opening context.Context) error {
	ctx := harness.UntilDrained(opening)
	cfg := webhook.RelayConfig{TTL: p.TTL, Timeout: 5 * time.Second, Schedule: soon(1000)}
	return p.Database.Use(opening,
		func(s harness.Store[pgx.Tx]) error { return webhook.New[pgx.Tx](s, config(p.URL)).Relay(cfg).Run(ctx) },
		func(s harness.Store[*sql.Tx]) error {
			return webhook.New[*sql.Tx](s, config(p.URL)).Relay(cfg).Run(ctx)
		})
}
