package sqlitegroup

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
)

// Relaxed is a connection for writes that may be lost in a power failure because they are
// done again. With a write-ahead log its COMMIT neither waits for the disk nor runs a
// checkpoint. With synchronous = FULL, the default of SQLite, a sweep of 2,000 rows in parts of 20
// kept requests from the file for 0.3 to 1.4 s in all. In ordinary transactions, each with a flush,
// it was 3.3 to 12.9 s, 2.3 to 42 times as long. With NORMAL there was no difference.
type Relaxed struct {
	f     *File
	keeps bool // it keeps its connection between turns
	logs  bool // there is a write-ahead log

	conn *sql.Conn // nil: it has no connection at the moment
	stmt *sql.Stmt // of conn
	undo string    // restores the settings of conn
}

// CommitError is the error of a COMMIT that [Relaxed.Run] has sent: its writes
// may have been applied.
type CommitError struct{ Err error }

func (e *CommitError) Error() string { return e.Err.Error() }

func (e *CommitError) Unwrap() error { return e.Err }

// Relaxed returns a relaxed connection, which the caller closes. A writer that gets its turn
// needs a connection, so a Relaxed holds none while it waits. At most one Relaxed of the file may keep one, and
// never the only connection of the pool.
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

// connect gets a connection, unless it has one, and prepares a statement.
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
		const normal = 1 // with which a checkpoint waits for the disk as ever
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

// disconnect gives the connection back as it was, or drops it.
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

// restoreTime is how long restoring the settings of a connection may take.
const restoreTime = 5 * time.Second

// Run runs fn, with a prepared statement, in a transaction, and returns for how long that
// has kept others from writing. It waits for other processes outside of the queue. An error of
// its COMMIT is a *[CommitError]; after any other error nothing was applied.
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

// turn is a single try of Run. busy says that another process has the file.
func (r *Relaxed) turn(ctx context.Context, text string, fn func(context.Context, *sql.Stmt) error) (held time.Duration, busy bool, err error) {
	next, err := r.f.turn(ctx)
	if err != nil {
		return 0, false, err
	}
	defer next()
	if !r.keeps {
		defer r.disconnect()
	}
	ctx = context.WithoutCancel(ctx) // it is too short to be worth watching the context
	if err := r.connect(ctx, text); err != nil {
		return 0, false, err
	}
	if _, err := r.conn.ExecContext(ctx, busyTimeout(0)+"; begin immediate; "+busyTimeout(r.f.busyTimeout.Milliseconds())); err != nil {
		if busy = isBusy(err); !busy {
			// Perhaps it has begun, and the last of the three statements has failed.
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

// rollback ends the transaction, if one is open.
func (r *Relaxed) rollback(ctx context.Context) {
	if _, err := r.conn.ExecContext(ctx, "ROLLBACK"); err != nil { // SQLite has done it itself, or cannot
		sqlguard.Drop(r.conn)
		r.disconnect()
	}
}

// Checkpoint moves pages of the write-ahead log into the file. It waits for no other
// connection, and no other connection waits for it. The next COMMIT moves the pages that it cannot move.
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
