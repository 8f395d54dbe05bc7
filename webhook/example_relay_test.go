package webhook_test

import (
	"context"
	"database/sql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/webhook"
)

// A relay delivers, and a commit of the engine wakes it.
func ExampleHooks_Relay() { //nolint:testableexamples // it needs a database
	run := func(ctx context.Context, s *sqlstore.Store, hooks *webhook.Hooks[*sql.Tx]) (*once.Engine[*sql.Tx], <-chan error) {
		relay := hooks.Relay(webhook.RelayConfig{})
		engine := once.New(s, once.Config{AfterCommit: relay.Wake})
		ended := make(chan error, 1)
		go func() { ended <- relay.Run(ctx) }()
		return engine, ended
	}
	_ = run
}
