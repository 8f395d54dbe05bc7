// Command jobs books jobs of a table, with nothing but database/sql around it. If a worker was killed before it could delete its job, another worker
// gets the job, and it is still booked once.
//
//	DATABASE_URL=postgres://... go run .
package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlstore"
)

const tables = `
create table if not exists job (
	id bigint generated always as identity primary key,
	kind text not null,
	payload text not null,
	run_at timestamptz not null default clock_timestamp()
);
create table if not exists booking (amount bigint not null)`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("DATABASE_URL"))
	stop()
	if err != nil {
		slog.Error("the jobs do not run", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dsn string) error {
	db, in, err := open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	go func() { _ = in.Run(ctx, book) }() // applies redriven dead letters, and forgets old IDs
	for {
		worked, err := work(ctx, db, in)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			slog.Warn("job", "error", err)
		case worked:
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// work takes one job that no other worker has, applies it and deletes it. It returns false if no job is free.
func work(ctx context.Context, db *sql.DB, in *inbox.Inbox[*sql.Tx]) (worked bool, err error) {
	tx, err := db.BeginTx(ctx, nil) // it locks the job. The job's work has a transaction of its own
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	var id int64
	m := message.Message{Source: "jobs"}
	err = tx.QueryRowContext(ctx, `select id, kind, payload from job where run_at <= clock_timestamp()
		order by run_at, id limit 1 for update skip locked`).Scan(&id, &m.Type, &m.Payload)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.ID = strconv.FormatInt(id, 10)
	if _, failed := in.Handle(ctx, m, book); failed != nil {
		_, after := retry.Classify(failed)
		_, err = tx.ExecContext(ctx, "update job set run_at = clock_timestamp() + $1 * interval '1 second' where id = $2", after.Seconds(), id)
	} else { // it is applied, or a dead letter
		_, err = tx.ExecContext(ctx, "delete from job where id = $1", id)
	}
	return true, errors.Join(err, tx.Commit())
}

func book(ctx context.Context, tx *sql.Tx, m message.Message) error {
	amount, err := strconv.ParseInt(string(m.Payload), 10, 64)
	if err != nil {
		return retry.Permanent(err) // another attempt cannot change it
	}
	_, err = tx.ExecContext(ctx, "insert into booking (amount) values ($1)", amount)
	return err
}

func open(ctx context.Context, dsn string) (*sql.DB, *inbox.Inbox[*sql.Tx], error) {
	db, err := sqlstore.Open("pgx", dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := prepare(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, newInbox(once.New(s, once.Config{})), nil
}

func newInbox(engine *once.Engine[*sql.Tx]) *inbox.Inbox[*sql.Tx] {
	return inbox.New(engine, inbox.Config{Consumer: "bookings"})
}

// prepare makes the tables, and returns a store.
func prepare(ctx context.Context, db *sql.DB) (*sqlstore.Store, error) {
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return nil, err
	}
	if err := sqlstore.Migrate(ctx, db, inbox.Migrations, deadletter.Migrations); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, sqlstore.Config{})
}
