package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
)

// sqlite is Do against the bare transaction on a file, with one client: writers of
// one file follow each other anyway.
type sqlite struct {
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
}

const sqliteSchema = `
create table charge (id text primary key, customer text not null, amount integer not null, currency text not null, created_at text not null default current_timestamp);
create table ledger_entry (id text primary key, charge_id text not null, account text not null, direction text not null, amount integer not null);`

func (b *bench) sqlite(ctx context.Context) (_ *sqlite, err error) {
	dir, err := os.MkdirTemp("", "once-bench-sqlite-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dsn := "file:" + filepath.Join(dir, "bench.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate"
	plain, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	guarded, err := sqlstore.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, guarded.Close()) }()
	if err := sqlstore.Migrate(ctx, guarded); err != nil {
		return nil, err
	}
	if _, err := plain.ExecContext(ctx, sqliteSchema); err != nil {
		return nil, err
	}
	s, err := sqlstore.New(ctx, guarded, sqlstore.Config{})
	if err != nil {
		return nil, err
	}
	engine := once.New(s, once.Config{})
	r := race{clients: 1, rounds: b.rounds, slice: b.slice, field: []*contestant{
		{name: nameBare, run: func(ctx context.Context) error { return bareSQL(ctx, plain) }},
		{name: nameFloor, run: func(ctx context.Context) error { return floorSQL(ctx, plain) }},
		{name: nameDo, run: func(ctx context.Context) error { return doSQL(ctx, engine) }},
		{name: nameFirst, run: func(ctx context.Context) error { return firstSQL(ctx, engine) }},
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	found := new(sqlite)
	for _, c := range r.field {
		found.Figures = append(found.Figures, c.figure())
	}
	for _, c := range []comparison{{nameDo, nameFloor, 0.9}, {nameFirst, nameFloor, 0.9}, {nameDo, nameBare, 0}, {nameFloor, nameBare, 0}} {
		found.Verdicts = append(found.Verdicts, judge(r.field, c))
	}
	return found, nil
}

const insertRecordSQL = `insert into once_operation (scope, key, claim, fingerprint, status, kind, head, body, expires_at, since)
 values (?, ?, ?, ?, 0, 0, null, ?, unixepoch('subsec') * 1000 + ?, unixepoch('subsec') * 1000)`

// floorSQL is the least that a replay needs: the record is inserted in the business transaction. Nothing is looked up or claimed.
func floorSQL(ctx context.Context, db *sql.DB) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	nonce := make([]byte, 16)
	rand.Read(nonce)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	r, err := o.placeSQL(ctx, tx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	const retain = 72 * time.Hour
	if _, err := tx.ExecContext(ctx, insertRecordSQL, op.Scope, op.Key, nonce, op.Fingerprint[:], body, float64(retain.Milliseconds())); err != nil {
		return err
	}
	return tx.Commit()
}

func bareSQL(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := newOrder().placeSQL(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

func doSQL(ctx context.Context, engine *once.Engine[*sql.Tx]) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	r, err := once.Do(ctx, engine, op, o.placeSQL)
	if err == nil && r.Replayed {
		err = errTaken
	}
	return err
}

// firstSQL is doSQL for a client that says that its attempt is the first one.
func firstSQL(ctx context.Context, engine *once.Engine[*sql.Tx]) error {
	o := newOrder()
	op := newOperation(once.NewKey(), o)
	op.Attempt.Number = 1
	_, err := once.Do(ctx, engine, op, o.placeSQL)
	return err
}

const (
	insertChargeSQL = `insert into charge (id, customer, amount, currency) values (?, ?, ?, ?)`
	insertEntrySQL  = `insert into ledger_entry (id, charge_id, account, direction, amount) values (?, ?, ?, ?, ?)`
)

// placeSQL is place on database/sql.
func (o order) placeSQL(ctx context.Context, tx *sql.Tx) (receipt, error) {
	_, err := tx.ExecContext(ctx, insertChargeSQL,
		o.ChargeID, o.Customer, o.Amount, o.Currency)
	if err != nil {
		return receipt{}, err
	}
	_, err = tx.ExecContext(ctx, insertEntrySQL,
		o.EntryID, o.ChargeID, "receivable", "debit", o.Amount)
	if err != nil {
		return receipt{}, err
	}
	return o.response(), nil
}

func (s *sqlite) write(p printer) {
	p("\n## SQLite, 1 client\n")
	p("sqlstore over modernc.org/sqlite, WAL, synchronous = FULL, against the same transaction without it. **%s** is the floor: the", nameFloor)
	p("same record is inserted in the business transaction, by database/sql alone. It looks nothing up and claims nothing: a duplicate fails there.\n")
	writeVerdicts(p, s.Verdicts)
	writeFigures(p, s.Figures)
}
