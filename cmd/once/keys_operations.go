package main

import (
	"context"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
)

// operations are those that a database keeps, and what an operator can do with them.
type operations struct {
	*cli.DB
}

// openOperations opens a database that is there and has been migrated.
func openOperations(ctx context.Context, m *cli.Env, dsn string) (*operations, error) {
	db, err := m.Open(ctx, dsn, operate.Config{})
	if err != nil {
		return nil, err
	}
	return &operations{db}, nil
}
