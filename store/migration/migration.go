// Package migration holds the schema of the SQL stores as numbered, plain SQL
// files that only move forward. The stores apply them with their Migrate
// functions, the command with "once migrate up"; "once migrate print" shows them
// for those who run goose, Atlas or a person with psql.
package migration

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/oncelib/once/store"
)

// Migration is one numbered file.
type Migration struct {
	Version int
	Name    string // such as "operation"
	SQL     string
}

// Noted returns the statements that note m as applied, for those who apply it with
// a tool of their own.
func (m Migration) Noted() string {
	return createTable + ";\n" + m.note() + ";\n"
}

func (m Migration) note() string {
	return fmt.Sprintf("insert into once_migration (version, name) values (%d, '%s')", m.Version, m.Name)
}

//go:embed */*.sql
var files embed.FS

// All returns the migrations of d in order.
func All(d store.Dialect) ([]Migration, error) {
	list, err := fs.ReadDir(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("migration: no dialect %q. Try: %s, %s or %s", d, store.PostgreSQL, store.SQLite, store.MySQL)
	}
	all := make([]Migration, len(list)) // ReadDir sorts by name, and the names begin with the number
	for i, f := range list {
		b, err := files.ReadFile(path.Join(string(d), f.Name()))
		if err != nil {
			return nil, err
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".sql"), "_")
		v, err := strconv.Atoi(number)
		if err != nil || v != i+1 {
			return nil, fmt.Errorf("migration: %s: not number %d", f.Name(), i+1)
		}
		all[i] = Migration{v, name, string(b)}
	}
	return all, nil
}

// Status is one migration and whether a database has it.
type Status struct {
	Migration
	Applied bool
}

// Tx is a transaction in which migrations run. It excludes other runs on the same
// database, in whatever way the database offers. MySQL has no transaction for it:
// there Exec gets over what a run that was killed has done already.
type Tx interface {
	Exec(ctx context.Context, sql string) error
	Versions(ctx context.Context, query string) ([]int, error) // the query returns one integer column
}

const (
	createTable  = `create table if not exists once_migration (version integer primary key, name text not null, applied_at timestamp not null default current_timestamp)`
	readVersions = `select version from once_migration order by version`
)

// Up applies what is missing, in tx, and returns what that was.
func Up(ctx context.Context, d store.Dialect, tx Tx) ([]Migration, error) {
	if err := tx.Exec(ctx, createTable); err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	status, err := Read(ctx, d, tx)
	if err != nil {
		return nil, err
	}
	var done []Migration
	for _, m := range status {
		if m.Applied {
			continue
		}
		if err := tx.Exec(ctx, m.SQL); err != nil {
			return nil, fmt.Errorf("migration %03d_%s: %w", m.Version, m.Name, err)
		}
		if err := tx.Exec(ctx, m.note()); err != nil {
			return nil, fmt.Errorf("migration %03d_%s: %w", m.Version, m.Name, err)
		}
		done = append(done, m.Migration)
	}
	return done, nil
}

// Read returns every migration and whether tx's database has it. The table
// once_migration must exist.
func Read(ctx context.Context, d store.Dialect, tx Tx) ([]Status, error) {
	all, err := All(d)
	if err != nil {
		return nil, err
	}
	have, err := tx.Versions(ctx, readVersions)
	if err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	if n := len(have); n > 0 && have[n-1] > len(all) {
		return nil, fmt.Errorf("migration: the database is at version %d, this program knows %d. Try: a newer release of once", have[n-1], len(all))
	}
	status := make([]Status, len(all))
	for i, m := range all {
		status[i] = Status{m, slices.Contains(have, m.Version)}
	}
	return status, nil
}
