package payments

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// TestMigrateWithRows: a database of the first version keeps what is in it, and a migration
// of MySQL or MariaDB, which commit every statement by itself, can be cut anywhere.
func TestMigrateWithRows(t *testing.T) {
	t.Parallel()
	open := map[string]func(context.Context, *testing.T) (*DB, error){
		"SQLite": func(ctx context.Context, t *testing.T) (*DB, error) {
			t.Helper()
			return openSQLite(ctx, filepath.Join(t.TempDir(), "payments.db"), true)
		},
		"PostgreSQL": func(ctx context.Context, t *testing.T) (*DB, error) {
			t.Helper()
			return openPostgres(ctx, testenv.NewDatabase(t), true)
		},
		"MariaDB": func(ctx context.Context, t *testing.T) (*DB, error) {
			t.Helper()
			_, name, _ := strings.Cut(testenv.NewMariaDB(t), "/")
			return openMySQL(ctx, testenv.SharedMariaDB(t).URL(name), true)
		},
		"MySQL": func(ctx context.Context, t *testing.T) (*DB, error) {
			t.Helper()
			_, name, _ := strings.Cut(testenv.NewMySQL(t), "/")
			return openMySQL(ctx, testenv.SharedMySQL(t).URL(name), true)
		},
	}
	first, err := migrations.ReadFile("migration/001_payments.sql")
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db, err := open(ctx, t)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			run := func(statements ...string) {
				t.Helper()
				err := db.inTx(ctx, false, func(tx queries) error {
					for _, s := range statements {
						if err := db.apply(ctx, tx, s); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			run(string(first),
				"create table payments_migration (version integer primary key)", "insert into payments_migration (version) values (1)",
				"insert into charge (tenant, id, amount, currency, customer, created_at) values ('acme', 'ch_1', 5, 'EUR', 'ada', 'then')",
				"insert into refund (tenant, id, charge_id, amount, status, created_at) values ('acme', 're_1', 'ch_1', 5, 'succeeded', 'then')")
			if err := migrate(ctx, db); err != nil {
				t.Fatal(err)
			}
			if db.exists != nil {
				run("alter table refund drop column metadata", "delete from payments_migration")
			}
			if err := migrate(ctx, db); err != nil {
				t.Fatal(err)
			}
			err = db.inTx(ctx, true, func(tx queries) error {
				c, err := chargeByID(ctx, tx, "acme", "ch_1")
				if err != nil {
					return err
				}
				re, err := refundByID(ctx, tx, "acme", "re_1")
				if c.Amount != 5 || c.metadata == nil || len(c.metadata) > 0 || c.description != "" || re.Amount != 5 || re.metadata == nil || re.reason != "" {
					t.Errorf("%+v, %+v", c, re)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
