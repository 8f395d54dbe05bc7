package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncelib/once"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

// outboxGroups is Do + Add against Do on SQLite with group commit.
func (b *bench) outboxGroups(ctx context.Context) (all []grouped, err error) {
	for _, clients := range []int{1, 16} {
		g, err := b.outboxGroup(ctx, clients, 0.7)
		if err != nil {
			return nil, fmt.Errorf("SQLite, %d clients: %w", clients, err)
		}
		all = append(all, g)
	}
	return all, nil
}

func (b *bench) outboxGroup(ctx context.Context, clients int, bar float64) (g grouped, err error) {
	dir, err := os.MkdirTemp("", "once-bench-outbox-")
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, engine, box, err := openOutbox(ctx, filepath.Join(dir, "bench.db"), clients)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r := race{clients: clients, rounds: b.rounds, slice: b.slice, field: []*contestant{
		{name: nameDo, run: func(ctx context.Context) error { return doSQL(ctx, engine) }},
		{name: nameDoAdd, run: func(ctx context.Context) error { return doAddSQL(ctx, engine, box) }},
	}}
	if err := r.run(ctx); err != nil {
		return g, err
	}
	return grouped{
		Clients:  clients,
		Figures:  []figure{r.field[0].figure(), r.field[1].figure()},
		Verdicts: []verdict{judge(r.field, comparison{nameDoAdd, nameDo, bar})},
	}, nil
}

func openOutbox(ctx context.Context, file string, clients int) (*sql.DB, *once.Engine[*sql.Tx], *outbox.Box[*sql.Tx], error) {
	db, engine, err := openSQLite(ctx, file, clients, sqlstore.Config{GroupCommit: true})
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{GroupCommit: true})
	if err == nil {
		err = sqlstore.Migrate(ctx, db, outbox.Migrations)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	return db, engine, outbox.New(s, outbox.Config{}), nil
}

func doAddSQL(ctx context.Context, engine *once.Engine[*sql.Tx], box *outbox.Box[*sql.Tx]) error {
	o := newOrder()
	r, err := once.Do(ctx, engine, newOperation(once.NewKey(), o), func(ctx context.Context, tx *sql.Tx) (receipt, error) {
		r, err := o.placeSQL(ctx, tx)
		if err != nil {
			return r, err
		}
		m, err := r.message()
		if err != nil {
			return r, err
		}
		return r, box.Add(ctx, tx, m)
	})
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}
