package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
)

// grouped is Do on SQLite with group commit against Do with a transaction for each
// request, at several numbers of clients.
type grouped struct {
	Clients  int       `json:"clients"`
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
}

const (
	nameGroup   = "Do, group commit"
	nameOneConn = "Do, one connection" // they wait for that, in no order
)

// groupSettings are numbers of clients and their bars.
var groupSettings = []struct {
	clients int
	bar     float64
}{{1, 0.95}, {16, 3}, {64, 4}}

func (b *bench) groups(ctx context.Context) (all []grouped, err error) {
	for _, s := range groupSettings {
		g, err := b.group(ctx, s.clients, s.bar)
		if err != nil {
			return nil, fmt.Errorf("%d clients: %w", s.clients, err)
		}
		all = append(all, g)
	}
	return all, nil
}

func (b *bench) group(ctx context.Context, clients int, bar float64) (g grouped, err error) {
	dir, err := os.MkdirTemp("", "once-bench-group-")
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := race{clients: clients, rounds: b.rounds, slice: b.slice}
	for _, c := range []struct {
		name  string
		conns int
		cfg   sqlstore.Config
	}{{nameDo, 0, sqlstore.Config{}}, {nameOneConn, 1, sqlstore.Config{}}, {nameGroup, 0, sqlstore.Config{GroupCommit: true}}} {
		// A file of its own: each flushes and checkpoints what it has written itself.
		db, engine, err := openSQLite(ctx, filepath.Join(dir, c.name+".db"), clients, c.cfg)
		if err != nil {
			return g, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		db.SetMaxOpenConns(c.conns)
		r.field = append(r.field, &contestant{name: c.name, run: func(ctx context.Context) error { return doSQL(ctx, engine) }})
	}
	if err := r.run(ctx); err != nil {
		return g, err
	}
	return grouped{
		Clients:  clients,
		Figures:  []figure{r.field[0].figure(), r.field[1].figure(), r.field[2].figure()},
		Verdicts: []verdict{judge(r.field, comparison{nameGroup, nameDo, bar}), judge(r.field, comparison{nameGroup, nameOneConn, 0})},
	}, nil
}

func openSQLite(ctx context.Context, file string, clients int, cfg sqlstore.Config) (*sql.DB, *once.Engine[*sql.Tx], error) {
	db, err := sqlstore.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxIdleConns(clients) // database/sql keeps two, and opens files all the time
	err = sqlstore.Migrate(ctx, db)
	if err == nil {
		_, err = db.ExecContext(ctx, sqliteSchema)
	}
	var s *sqlstore.Store
	if err == nil {
		s, err = sqlstore.New(ctx, db, cfg)
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, once.New(s, once.Config{}), nil
}

func writeGroups(p printer, all []grouped) {
	p("\n## SQLite, group commit\n")
	p("sqlstore over modernc.org/sqlite, WAL, synchronous = FULL: `Config{GroupCommit: true}` against one transaction per request.\n")
	p("The clients of %s stand in line in the store; with **one connection** they queue in database/sql instead.\n", nameDo)
	for _, g := range all {
		p("| %d clients | ratio | bar | | by CPU time |", g.Clients)
		p("|---|---|---|---|---|")
		for _, v := range g.Verdicts {
			p("| %s | %s | %.2f |", v.What, v.cells(), v.CPU)
		}
		p("")
		for _, f := range g.Figures {
			p("%s: %.0f a second.", f.Name, f.PerSecond)
		}
		p("")
	}
}
