// Package receipts is the commands of once receipts: what a service has committed for a gateway.
package receipts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// Noun is once receipts.
var Noun = cli.Noun{
	Name: "receipts", Brief: "receipts: records of a service about the operations that a gateway forwarded to it", Group: cli.GroupOperate,
	Entries: []cli.Entry{showEntry, forgetEntry, sweepEntry, ddlEntry},
}

// open opens the receipts in a database of a service, which need not have other tables of once.
func open(ctx context.Context, m *cli.Env, dsn string, cfg receipt.Config) (*cli.Database, *receipt.Table, error) {
	db, err := cli.OpenDatabase(ctx, dsn, false)
	if err != nil {
		return nil, nil, err
	}
	open := m.OpenStore
	if open == nil {
		open = func(ctx context.Context, db *cli.Database) (sqlplane.Database, error) {
			return sqlstore.New(ctx, db.DB, sqlstore.Config{NoOperations: true})
		}
	}
	s, err := open(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(db.Failed("read", err), db.Close())
	}
	switch s := s.(type) {
	case store.Store[*sql.Tx]:
		return db, receipt.New(s, cfg), nil
	case store.Store[pgx.Tx]:
		return db, receipt.New(s, cfg), nil
	}
	return nil, nil, errors.Join(fmt.Errorf("%T has no transactions", s), db.Close())
}

// refused says in the words of the command why nothing was done.
func refused(db *cli.Database, doing string, err error) error {
	if lacks := db.Lacks(err, "receipts", receipt.Migrations.Capability); lacks != nil {
		return lacks
	}
	if !errors.As(err, new(*store.Error)) { // an argument was refused, and the error has the reason
		what, try, _ := strings.Cut(strings.TrimPrefix(err.Error(), "receipt: "), ". Try: ")
		return cli.Usage(what, try)
	}
	return db.Failed(doing, err)
}

// missing is the error of a command about an operation without a row.
func missing(db *cli.Database, operation string) error {
	return cli.Nothing(fmt.Errorf("%s has no receipt of %s. The service may still execute this operation. Try: look at the operation in the gateway, or run the same command again when the service has no open transaction", db.Name, operation))
}
