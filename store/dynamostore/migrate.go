package dynamostore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/dynamotable"
	"github.com/oncelib/once/store"
)

// Definition returns the definition of a table that can be passed to [New]. The definition is JSON
// for the command "aws dynamodb create-table --cli-input-json".
func Definition(table string) string { return dynamotable.Definition(table) }

// Migrate creates the table if it does not exist, and returns when the table can be used. Several nodes may
// call Migrate at the same time when they start.
func (s *Store) Migrate(ctx context.Context) error {
	var in dynamodb.CreateTableInput
	if err := json.Unmarshal([]byte(Definition(s.table)), &in); err != nil {
		return err
	}
	for {
		err := s.Check(ctx)
		switch {
		case !errors.Is(err, store.ErrNotMigrated):
			return err
		case missing(err):
			var exists *types.ResourceInUseException // another node has created the table meanwhile
			if _, err := s.client.CreateTable(ctx, &in); err != nil && !errors.As(err, &exists) {
				return failedRead(err)
			}
		// The table exists, and is not active yet.
		case !sleep.For(ctx, 500*time.Millisecond):
			return err
		}
	}
}

// missing reports whether err says that a table does not exist.
func missing(err error) bool {
	var none *types.ResourceNotFoundException
	return errors.As(err, &none)
}
