package main

import (
	"context"

	"github.com/oncelib/once/admin"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/store"
)

// operations are those that a database keeps, and what an operator can do with them.
type operations struct {
	*cli.Database
	store store.Database
	admin *admin.Admin
}

// openOperations opens a database that is there and has been migrated.
func openOperations(ctx context.Context, m *cli.Env, dsn string) (*operations, error) {
	db, s, err := m.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &operations{db, s, admin.New(s)}, nil
}
