package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/oncelib/once/store/sqlplane"
)

// Status is one migration. Status says whether a database has applied the migration.
type Status struct {
	Migration
	Applied bool
}

// Tx is a transaction in which migrations run. A Tx holds a lock of the database, which excludes other
// migration runs on the same database. MySQL cannot change a schema in a transaction: on MySQL, Exec ignores
// the error of a statement that an earlier, killed run has already executed.
type Tx interface {
	Exec(ctx context.Context, sql string) error
	Query(ctx context.Context, sql string, each func(sqlplane.Row) error) error
}

// Up applies the migrations of sets that tx's database has not applied yet, and returns the migrations that it
// has applied. If every migration was applied, Up writes nothing.
func Up(ctx context.Context, d sqlplane.Dialect, tx Tx, sets ...Set) ([]Migration, error) {
	has, err := readSchema(ctx, d, tx)
	if err != nil {
		return nil, err
	}
	status, err := has.status(d, sets)
	if err != nil {
		return nil, err
	}
	var missing []Migration
	for _, s := range status {
		if !s.Applied {
			missing = append(missing, s.Migration)
		}
	}
	if len(missing) == 0 && len(has.earlier) == 0 {
		return nil, nil
	}
	if err := tx.Exec(ctx, createTable); err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	// Noted in once_schema as well, so that this table alone lists the applied migrations.
	for _, m := range has.earlier {
		if err := tx.Exec(ctx, m.note()); err != nil {
			return nil, fmt.Errorf("migration: %w", err)
		}
	}
	for _, m := range missing {
		if err := tx.Exec(ctx, m.SQL); err != nil {
			return nil, fmt.Errorf("migration: %s: %s: %w", m.Capability, m.File(), err)
		}
		if err := tx.Exec(ctx, m.note()); err != nil {
			return nil, fmt.Errorf("migration: %s: %s: %w", m.Capability, m.File(), err)
		}
	}
	return missing, nil
}

// Read returns every migration of sets, and says for each migration whether tx's database has applied it. Read
// writes nothing.
func Read(ctx context.Context, d sqlplane.Dialect, tx Tx, sets ...Set) ([]Status, error) {
	has, err := readSchema(ctx, d, tx)
	if err != nil {
		return nil, err
	}
	return has.status(d, sets)
}

// schema holds the versions of each capability that a database has.
type schema struct {
	versions map[string][]int
	earlier  []Migration // the versions among them that only once_migration has
}

const (
	createTable = `create table if not exists once_schema (capability varchar(64) not null, version integer not null, name varchar(255) not null,` +
		` applied_at timestamp not null default current_timestamp, primary key (capability, version))`
	readVersions = `select capability, version from once_schema`
	readEarlier  = `select version from once_migration`
)

// readTables holds the queries that return which of the two tables exist. A query of a missing table would fail, and
// on PostgreSQL the transaction would fail with it. to_regclass is not used: a connection that has waited for the
// lock may still remember that the table does not exist.
var readTables = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `select relname::text from pg_class where relname in ('once_schema', 'once_migration') and pg_table_is_visible(oid)`,
	sqlplane.SQLite:     `select name from sqlite_master where type = 'table' and name in ('once_schema', 'once_migration')`,
	sqlplane.MySQL:      `select table_name from information_schema.tables where table_schema = database() and table_name in ('once_schema', 'once_migration')`,
}

// earlier translates the versions in once_migration. Programs from before once_schema write that table, with one
// sequence for all capabilities, and may do so at any time. This package never changes that table, so that such a
// program finds its own rows.
var earlier = map[int][]Migration{
	1: {{Capability: "operation", Version: 1, Name: "operation"}},
	2: {{Capability: "operation", Version: 2, Name: "expiry"}},
	3: {{Capability: "attemptlog", Version: 1, Name: "attempt"}, {Capability: "operate", Version: 1, Name: "audit"}},
	4: {{Capability: "journal", Version: 1, Name: "intent"}},
}

// renamed maps the old names of capabilities to the new ones. A database keeps the rows that were noted under an old name, so that
// an earlier program finds them too.
var renamed = map[string]string{"admin": "operate"}

// readSchema reads which versions a database has.
func readSchema(ctx context.Context, d sqlplane.Dialect, tx Tx) (schema, error) {
	has := schema{versions: map[string][]int{}}
	var tables []string
	err := tx.Query(ctx, readTables[d], func(row sqlplane.Row) error {
		var name string
		err := row.Scan(&name)
		tables = append(tables, name)
		return err
	})
	if err == nil && slices.Contains(tables, "once_schema") {
		err = tx.Query(ctx, readVersions, func(row sqlplane.Row) error {
			var capability string
			var version int
			err := row.Scan(&capability, &version)
			capability = cmp.Or(renamed[capability], capability)
			has.versions[capability] = append(has.versions[capability], version)
			return err
		})
	}
	if err == nil && slices.Contains(tables, "once_migration") {
		err = tx.Query(ctx, readEarlier, func(row sqlplane.Row) error {
			var version int
			if err := row.Scan(&version); err != nil {
				return err
			}
			if earlier[version] == nil {
				return fmt.Errorf("the table once_migration of the database has version %d, but this program knows only versions up to %d. Try: a newer release of once", version, len(earlier))
			}
			for _, m := range earlier[version] {
				if !slices.Contains(has.versions[m.Capability], m.Version) {
					has.versions[m.Capability] = append(has.versions[m.Capability], m.Version)
					has.earlier = append(has.earlier, m)
				}
			}
			return nil
		})
	}
	if err != nil {
		return schema{}, fmt.Errorf("migration: %w", err)
	}
	return has, nil
}

// status returns which migrations of sets are applied. It returns an error if the database is newer than sets.
func (s schema) status(d sqlplane.Dialect, sets []Set) ([]Status, error) {
	all, err := All(d, sets...)
	if err != nil {
		return nil, err
	}
	status := make([]Status, len(all))
	known := map[string]int{}
	for i, m := range all {
		known[m.Capability] = m.Version
		status[i] = Status{m, slices.Contains(s.versions[m.Capability], m.Version)}
	}
	for _, set := range sets {
		if newest := slices.Max(append(s.versions[set.Capability], 0)); newest > known[set.Capability] {
			return nil, fmt.Errorf("migration: the database has version %d of the tables of %s, but this program knows only versions up to %d. Try: a newer release of once", newest, set.Capability, known[set.Capability])
		}
	}
	return status, nil
}
