package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	litedriver "modernc.org/sqlite"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

// guard is what the guard under database/sql costs a statement of an operation.
type guard []guardFigure

type guardFigure struct {
	Database  string        `json:"database"`
	Statement string        `json:"statement"`
	Bare      time.Duration `json:"bare_ns"`
	More      float64       `json:"more_ns"` // CPU time of the client; median of the rounds
	Ratio     verdict       `json:"ratio"`
}

const (
	guardFinds  = "select n from guarded where id = 1"
	guardMisses = "update guarded set n = 2 where id = 0" // so that no row has a history
)

// guardWays are the ways in which a statement is run.
var guardWays = []struct {
	name string
	run  func(ctx context.Context, tx *sql.Tx, prepared [2]*sql.Stmt) error
}{
	{"Exec", func(ctx context.Context, tx *sql.Tx, _ [2]*sql.Stmt) error {
		_, err := tx.ExecContext(ctx, guardMisses)
		return err
	}},
	{"Exec, prepared", func(ctx context.Context, _ *sql.Tx, p [2]*sql.Stmt) error {
		_, err := p[0].ExecContext(ctx)
		return err
	}},
	{"Query of one row", func(ctx context.Context, tx *sql.Tx, _ [2]*sql.Stmt) (err error) {
		return tx.QueryRowContext(ctx, guardFinds).Scan(new(int))
	}},
	{"Query of one row, prepared", func(ctx context.Context, _ *sql.Tx, p [2]*sql.Stmt) error {
		return p[1].QueryRowContext(ctx).Scan(new(int))
	}},
}

// guard runs each statement in a transaction that stays open, with and without the guard.
func (b *bench) guard(ctx context.Context) (g guard, err error) {
	dir, err := os.MkdirTemp("", "once-bench-guard-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	maria, err := testenv.StartMariaDB(ctx, testenv.MariaDBConfig{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, maria.Close()) }()
	pg, err := pgx.ParseConfig(b.server.pg.URL("postgres"))
	if err != nil {
		return nil, err
	}
	my, err := mysql.MySQLDriver{}.OpenConnector(maria.DSN("mysql"))
	if err != nil {
		return nil, err
	}
	files := make([]driver.Connector, 2) // one file has one writer
	for i := range files {
		if files[i], err = litedriver.NewConnector(fmt.Sprintf("file:%s?_pragma=journal_mode(WAL)", filepath.Join(dir, strconv.Itoa(i)))); err != nil {
			return nil, err
		}
	}
	for _, d := range []struct {
		name          string
		dialect       sqlguard.Dialect
		bare, guarded driver.Connector
	}{
		{"no database", sqlguard.PostgreSQL, nothing{}, nothing{}},
		{"SQLite", sqlguard.SQLite, files[0], files[1]},
		{"PostgreSQL", sqlguard.PostgreSQL, stdlib.GetConnector(*pg), stdlib.GetConnector(*pg)},
		{"MariaDB", sqlguard.MySQL, my, my},
	} {
		dbs := [2]*sql.DB{sql.OpenDB(d.bare), sql.OpenDB(sqlguard.Wrap(d.guarded, d.dialect))}
		figures, err := b.guardOf(ctx, dbs)
		if err = errors.Join(err, dbs[0].Close(), dbs[1].Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		for i := range figures {
			figures[i].Database = d.name
		}
		g = append(g, figures...)
	}
	return g, nil
}

// guardOf takes a database without and with the guard, which may be the same one.
func (b *bench) guardOf(ctx context.Context, dbs [2]*sql.DB) (figures []guardFigure, err error) {
	var txs [2]*sql.Tx
	var prepared [2][2]*sql.Stmt
	for i, db := range dbs {
		if _, err := db.ExecContext(ctx, "create table if not exists guarded (id int primary key, n int)"); err != nil {
			return nil, err
		}
		if _, err := db.ExecContext(ctx, "insert into guarded select 1, 1 where not exists (select 1 from guarded)"); err != nil {
			return nil, err
		}
		arms := ctx
		if i == 1 {
			arms = new(sqlguard.Txn).Context(ctx)
		}
		if txs[i], err = db.BeginTx(arms, nil); err != nil {
			return nil, err
		}
		defer func() { _ = txs[i].Rollback() }()
		for j, text := range []string{guardMisses, guardFinds} {
			stmt, err := txs[i].PrepareContext(ctx, text)
			if err != nil {
				return nil, err
			}
			defer stmt.Close()
			prepared[i][j] = stmt
		}
	}
	for _, way := range guardWays {
		var field [2]*contestant
		for i := range field {
			field[i] = &contestant{name: way.name, run: func(ctx context.Context) error { return way.run(ctx, txs[i], prepared[i]) }}
		}
		r := race{clients: 1, rounds: b.rounds, slice: b.slice / 2, field: field[:]}
		if err := r.run(ctx); err != nil {
			return nil, err
		}
		var more, ratio, bare []float64
		for i, l := range field[1].laps {
			without := field[0].laps[i]
			more = append(more, float64(l.client-without.client))
			ratio = append(ratio, float64(l.wall)/float64(without.wall))
			bare = append(bare, float64(without.wall))
		}
		f := guardFigure{Statement: way.name, Ratio: absolute(way.name, ratio, 0)}
		f.More, _, _ = spread(more)
		median, _, _ := spread(bare)
		f.Bare = time.Duration(median)
		figures = append(figures, f)
	}
	return figures, nil
}

func (g guard) write(p printer) {
	p("\n## The guard under database/sql\n")
	p("A statement in a transaction that is open, without the guard and with it. *No database* is a driver that does nothing: what")
	p("is left is the guard and database/sql. CPU time is that of the client.\n")
	p("| | statement | bare | guarded / bare | more CPU |")
	p("|---|---|---|---|---|")
	for _, f := range g {
		p("| %s | %s | %.2f µs | **%.2f** [%.2f .. %.2f] | %+.0f ns |", f.Database, f.Statement, micros(f.Bare), f.Ratio.Median, f.Ratio.Min, f.Ratio.Max, f.More)
	}
}

// nothing is a driver that answers at once, with one row.
type nothing struct{}

func (nothing) Connect(context.Context) (driver.Conn, error) { return nothingConn{}, nil }
func (nothing) Driver() driver.Driver                        { return nil }

type nothingConn struct{}

func (nothingConn) Prepare(string) (driver.Stmt, error) { return nothingStmt{}, nil }
func (nothingConn) Close() error                        { return nil }
func (nothingConn) Begin() (driver.Tx, error)           { return nothingConn{}, nil }
func (nothingConn) Commit() error                       { return nil }
func (nothingConn) Rollback() error                     { return nil }

func (nothingConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(0), nil
}

func (nothingConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return new(nothingRows), nil
}

type nothingStmt struct{}

func (nothingStmt) Close() error                               { return nil }
func (nothingStmt) NumInput() int                              { return 0 }
func (nothingStmt) Exec([]driver.Value) (driver.Result, error) { return driver.RowsAffected(0), nil }
func (nothingStmt) Query([]driver.Value) (driver.Rows, error)  { return new(nothingRows), nil }

type nothingRows struct{ read bool }

var nothingColumns = []string{"n"}

func (*nothingRows) Columns() []string { return nothingColumns }
func (*nothingRows) Close() error      { return nil }

func (r *nothingRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, dest[0] = true, int64(1)
	return nil
}
