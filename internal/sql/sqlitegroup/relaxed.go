package sqlitegroup

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
)

// Relaxed is a connection for writes that may be lost in a power failure, because they are repeated. With a write-ahead log, its
// COMMIT neither waits for the disk nor runs a checkpoint. A sweep of 2,000 rows in parts of 20 was measured with
// synchronous = FULL, the default of SQLite: it blocked the file for requests for 0.3 to 1.4 s in total. Ordinary
// transactions, each with a flush, blocked it for 3.3 to 12.9 s, which is 2.3 to 42 times as long. With NORMAL there was no
// difference.
type Relaxed struct {
	f     *File
	keeps bool // it keeps its connection between its turns
	logs  bool // the file has a write-ahead log

	conn *sql.Conn // nil: it has no connection now
	stmt *sql.Stmt // of conn
	undo string    // restores the settings of conn
}

// CommitError is the error of a COMMIT of [Relaxed.Run]: its writes may have been applied.
type CommitError struct{ Err error }

func (e *CommitError) Error() string { return e.Err.Error() }

func (e *CommitError) Unwrap() error { return e.Err }

// Relaxed returns a relaxed connection, which the caller must close. A writer needs a connection for its turn, so a Relaxed
// normally holds none while it waits. At most one Relaxed of the file may keep a connection, and never the only connection
// of the pool.
func (f *File) Relaxed() *Relaxed {
	return &Relaxed{f: f, keeps: f.db.Stats().MaxOpenConnections != 1 && f.relaxed.CompareAndSwap(false, true)}
}

// Close releases the connection of r.
func (r *Relaxed) Close() {
	r.disconnect()
	if r.keeps {
		r.f.relaxed.Store(false)
	}
}

// connect gets a connection, unless r has one, and prepares a statement.
func (r *Relaxed) connect(ctx context.Context, text string) (err error) {
	if r.conn != nil {
		return nil
	}
	if r.conn, err = r.f.db.Conn(ctx); err != nil {
		r.conn = nil
		return err
	}
	r.undo = busyTimeout(r.f.busyTimeout.Milliseconds())
	var journal string
	var synchronous, moves int
	for name, to := range map[string]any{"journal_mode": &journal, "synchronous": &synchronous, "wal_autocheckpoint": &moves} {
		if err = r.conn.QueryRowContext(ctx, "pragma "+name).Scan(to); err != nil {
			break
		}
	}
	if r.logs = journal == "wal"; err == nil && r.logs {
		set := func(synchronous, moves int) string {
			return fmt.Sprintf("pragma synchronous = %d; pragma wal_autocheckpoint = %d", synchronous, moves)
		}
		r.undo += "; " + set(synchronous, moves)
		const normal = 1 // with NORMAL, a checkpoint still waits for the disk
		_, err = r.conn.ExecContext(ctx, set(min(synchronous, normal), 0))
	}
	if err == nil {
		r.stmt, err = r.conn.PrepareContext(ctx, text)
	}
	if err != nil {
		r.disconnect()
	}
	return err
}

// disconnect returns the connection with its original settings, or drops it.
func (r *Relaxed) disconnect() {
	if r.conn == nil {
		return
	}
	if r.stmt != nil {
		_ = r.stmt.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTime)
	defer cancel()
	if _, err := r.conn.ExecContext(ctx, r.undo); err != nil {
		sqlguard.Drop(r.conn)
	}
	_ = r.conn.Close()
	r.conn, r.stmt = nil, nil
}

// restoreTime is how long the restoring of a connection's settings may take.
const restoreTime = 5 * time.Second

// Run runs fn, with a prepared statement, in a transaction. It returns for how long this has blocked other writers. It waits for
// other processes outside the queue. An error of its COMMIT is a *[CommitError]; after any other error nothing was applied.
func (r *Relaxed) Run(ctx context.Context, text string, fn func(context.Context, *sql.Stmt) error) (held time.Duration, err error) {
	for until := time.Now().Add(r.f.busyTimeout); ; {
		held, busy, err := r.turn(ctx, text, fn)
		if !busy || time.Now().After(until) {
			return held, err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// turn is one try of Run. busy says that another process has locked the file.
func (r *Relaxed) turn(ctx context.Context, text string, fn func(context.Context, *sql.Stmt) error) (held time.Duration, busy bool, err error) {
	next, err := r.f.turn(ctx)
	if err != nil {
		return 0, false, err
	}
	defer next()
	if !r.keeps {
		defer r.disconnect()
	}
	ctx = context.WithoutCancel(ctx) // the work is too short to watch the context
	if err := r.connect(ctx, text); err != nil {
		return 0, false, err
	}
	if _, err := r.conn.ExecContext(ctx, busyTimeout(0)+"; begin immediate; "+busyTimeout(r.f.busyTimeout.Milliseconds())); err != nil {
		if busy = isBusy(err); !busy {
			// The transaction may have begun, and the last of the three statements may have failed.
			r.rollback(ctx)
		}
		return 0, busy, err
	}
	began := time.Now()
	if err = fn(ctx, r.stmt); err == nil {
		if _, err = r.conn.ExecContext(ctx, "COMMIT"); err != nil {
			err = &CommitError{Err: err}
		}
	}
	if err != nil {
		r.rollback(ctx)
	}
	return time.Since(began), false, err
}

// rollback ends the transaction if one is open.
func (r *Relaxed) rollback(ctx context.Context) {
	if _, err := r.conn.ExecContext(ctx, "ROLLBACK"); err != nil { // SQLite has rolled back by itself, or cannot roll back
		sqlguard.Drop(r.conn)
		r.disconnect()
	}
}

// Checkpoint moves pages of the write-ahead log into the file. It waits for no other connection, and no other connection waits for
// it. Pages that it cannot move are moved by a later checkpoint.
func (r *Relaxed) Checkpoint(ctx context.Context) {
	if !r.logs {
		return
	}
	const text = "pragma wal_checkpoint(passive)"
	ctx = context.WithoutCancel(ctx)
	if r.conn == nil {
		_, _ = r.f.db.ExecContext(ctx, text)
		return
	}
	_, _ = r.conn.ExecContext(ctx, text)
}
