package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// admit opens a database for its examination, through one plain connection.
func admit(ctx context.Context, dsn string) (*patient, error) {
	if strings.HasPrefix(dsn, "file:") { // a data source name, with all that the service sets
		src, err := cli.ParseSource(dsn)
		if err != nil {
			return nil, err
		}
		src.DSN = dsn
		if _, err := os.Stat(src.Path); err != nil { // opening it would make it
			return nil, src.Failed("open", err)
		}
		return admitted(ctx, src, true)
	}
	db, err := cli.OpenDatabase(ctx, dsn, false) // which has the better words for what is wrong
	if err != nil {
		return nil, err
	}
	_ = db.Close()
	return admitted(ctx, db.Source, db.Dialect != sqlplane.SQLite)
}

func admitted(ctx context.Context, src cli.Source, exact bool) (*patient, error) {
	db, err := src.Plain()
	if err != nil {
		return nil, src.Failed("open", err)
	}
	db.SetMaxOpenConns(1)
	p := &patient{DB: db, Source: src, exact: exact, close: func() { _ = db.Close() }}
	if err := cli.Reached(ctx, src, db); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// status reads the migrations.
func (p *patient) status(ctx context.Context) ([]migration.Status, error) {
	var db *sql.DB
	cfg, err := p.PGX()
	switch {
	case err != nil:
		return nil, err
	case cfg != nil:
		db = sqlstore.OpenDB(sqlplane.PostgreSQL, stdlib.GetConnector(*cfg))
	default:
		if db, err = sqlstore.Open(p.Source.Driver, p.DSN); err != nil {
			return nil, err
		}
	}
	defer db.Close()
	return sqlstore.Status(ctx, db, capabilities...)
}

var creates = regexp.MustCompile(`create table (\w+)`)

// askMigrations is the same for all dialects. A capability of which the database has nothing is
// not in use; one that it has in part fails.
func askMigrations(ctx context.Context, p *patient) (finding, error) {
	status, err := p.status(ctx)
	if err != nil {
		return finding{}, err
	}
	var has, lacks []migration.Migration
	all, missing := map[string]int{}, map[string]int{}
	for _, s := range status {
		all[s.Capability]++
		if s.Applied {
			has = append(has, s.Migration)
		} else {
			missing[s.Capability]++
			lacks = append(lacks, s.Migration)
		}
	}
	if p.Dialect == sqlplane.MySQL && missing[migration.Operation.Capability] > 0 {
		if err := p.rehearse(ctx, lacks); err != nil {
			what, try := cli.Advice(cli.OwnError(err).Error())
			return fail.because("tables are missing, and once migrate up fails: "+what, cli.Either(try != "", try, "the URL of a user who may create, alter and index tables in this database")), nil
		}
	}
	for _, m := range has {
		for _, match := range creates.FindAllStringSubmatch(m.SQL, -1) {
			if strings.Contains(m.SQL, "alter table "+match[1]+" rename to ") { // its rows have another name now
				continue
			}
			if _, err := p.ExecContext(ctx, "select 1 from "+match[1]+" where 1 = 0"); cli.IsMissingTable(err) {
				return fail.because(fmt.Sprintf("once_schema lists %s %d, but its table %s does not exist: what uses it fails", m.Capability, m.Version, match[1]),
					fmt.Sprintf("a backup; or delete from once_schema where capability = '%s', and then once migrate up --db %s", m.Capability, p.Paste)), nil
			}
		}
	}
	var unused []string
	for _, name := range namesOf(capabilities) {
		used := slices.ContainsFunc(has, func(m migration.Migration) bool { return m.Capability == name })
		switch n := missing[name]; {
		case n > 0 && name == migration.Operation.Capability:
			return fail.because(fmt.Sprintf("%d of %d migrations of %s are missing: operations fail", n, all[name], name), "once migrate up --db "+p.Paste), nil
		case n > 0 && used:
			return fail.because(fmt.Sprintf("%d of %d migrations of %s are missing: what uses its tables fails", n, all[name], name), "once migrate up --only "+name+" --db "+p.Paste), nil
		case n > 0:
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		return fine("the database has all of %s; it has no tables of %s", newest(has), strings.Join(unused, ", ")), nil
	}
	return fine("the database has all: %s", newest(has)), nil
}
