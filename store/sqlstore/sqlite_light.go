package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sqlguard"
)

// light is a connection to a file of SQLite's for what may be lost in a power failure,
// because it is done again: with a write-ahead log its COMMIT neither waits for the disk nor
// moves what is in the log.
type light struct {
	s    *Store
	kept bool // between turns
	logs bool // there is a write-ahead log

	conn *sql.Conn // nil: none at the moment
	stmt *sql.Stmt // of conn
	undo string    // makes conn what it was
}

// lighten returns a light connection, which the caller closes. Whoever has the turn to
// write needs a connection, so who waits for it keeps none: but for one, which is not the
// last one.
func (s *Store) lighten() *light {
	return &light{s: s, kept: s.db.Stats().MaxOpenConnections != 1 && s.light.CompareAndSwap(false, true)}
}

func (l *light) close() {
	l.leave()
	if l.kept {
		l.s.light.Store(false)
	}
}

// take gets the connection, if there is none, and prepares a statement.
func (l *light) take(ctx context.Context, text string) (err error) {
	if l.conn != nil {
		return nil
	}
	if l.conn, err = l.s.db.Conn(ctx); err != nil {
		l.conn = nil
		return err
	}
	l.undo = busyTimeout(l.s.busy)
	var journal string
	var synchronous, moves int
	for name, to := range map[string]any{"journal_mode": &journal, "synchronous": &synchronous, "wal_autocheckpoint": &moves} {
		if err = l.conn.QueryRowContext(ctx, "pragma "+name).Scan(to); err != nil {
			break
		}
	}
	if l.logs = journal == "wal"; err == nil && l.logs {
		set := func(synchronous, moves int) string {
			return fmt.Sprintf("pragma synchronous = %d; pragma wal_autocheckpoint = %d", synchronous, moves)
		}
		l.undo += "; " + set(synchronous, moves)
		const normal = 1 // with which a checkpoint waits for the disk as ever
		_, err = l.conn.ExecContext(ctx, set(min(synchronous, normal), 0))
	}
	if err == nil {
		l.stmt, err = l.conn.PrepareContext(ctx, text)
	}
	if err != nil {
		l.leave()
	}
	return err
}

// leave gives the connection back as it was, or up.
func (l *light) leave() {
	if l.conn == nil {
		return
	}
	if l.stmt != nil {
		_ = l.stmt.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), unbindTime)
	defer cancel()
	if _, err := l.conn.ExecContext(ctx, l.undo); err != nil {
		spoil(l.conn)
	}
	_ = l.conn.Close()
	l.conn, l.stmt = nil, nil
}

// spoil has the pool drop a connection.
func spoil(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }

// run runs fn, with a prepared statement, in a transaction, and returns for how long that
// has kept others from writing. It waits for other processes outside of the line.
func (l *light) run(ctx context.Context, text string, fn func(context.Context, *sql.Stmt) error) (held time.Duration, err error) {
	for until := time.Now().Add(l.s.patient()); ; {
		held, busy, err := l.turn(ctx, text, fn)
		if !busy || time.Now().After(until) {
			return held, err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return 0, l.s.down(ctx.Err())
		}
	}
}

// turn is run when it is its turn, unless another process has the file.
func (l *light) turn(ctx context.Context, text string, fn func(context.Context, *sql.Stmt) error) (held time.Duration, busy bool, err error) {
	next, err := l.s.turn(ctx)
	if err != nil {
		return 0, false, l.s.down(err)
	}
	defer next()
	if !l.kept {
		defer l.leave()
	}
	ctx = context.WithoutCancel(ctx) // it is short, and so needs nobody who watches over it
	if err := l.take(ctx, text); err != nil {
		return 0, false, l.s.down(err)
	}
	if _, err := l.conn.ExecContext(ctx, busyTimeout(0)+"; begin immediate; "+busyTimeout(l.s.busy)); err != nil {
		code, ok := sqlguard.SQLiteCode(err)
		if busy = ok && code&0xff == codeBusy; !busy {
			l.rollback(ctx)
		}
		return 0, busy, l.s.down(err)
	}
	began := time.Now()
	if err = fn(ctx, l.stmt); err != nil {
		err = l.s.down(err)
	} else if _, err = l.conn.ExecContext(ctx, "COMMIT"); err != nil {
		err = l.s.lost(err)
	}
	if err != nil {
		l.rollback(ctx)
	}
	return time.Since(began), false, err
}

// rollback ends what may be a transaction.
func (l *light) rollback(ctx context.Context) {
	if _, err := l.conn.ExecContext(ctx, "ROLLBACK"); err != nil { // SQLite has done it itself, or cannot
		spoil(l.conn)
		l.leave()
	}
}

// turn waits until it is the caller's turn to write, who calls next when it is over. Nobody
// who waits has a connection then, but for one that is [light].
func (s *Store) turn(ctx context.Context) (next func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := s.writer
	if w == nil {
		return func() { s.line.next(s.patient()) }, s.line.wait(ctx, s.patient(), false)
	}
	if err := w.wait(ctx, s.patient(), true); err != nil {
		return nil, err
	}
	if w.conn != nil {
		w.drop()
	}
	return w.next, nil
}

// checkpoint moves what is in the log to where it belongs, without waiting for anybody, and
// without anybody having to wait for it. Whoever commits next does what it has not.
func (l *light) checkpoint(ctx context.Context) {
	if !l.logs {
		return
	}
	const text = "pragma wal_checkpoint(passive)"
	ctx = context.WithoutCancel(ctx)
	if l.conn == nil {
		_, _ = l.s.db.ExecContext(ctx, text)
		return
	}
	_, _ = l.conn.ExecContext(ctx, text)
}
