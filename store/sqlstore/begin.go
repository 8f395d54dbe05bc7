package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/sql/txlimit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Begin implements [store.Store]. In the transaction that Begin opens, a failed statement prevents the commit: see the
// package documentation.
func (s *Store) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*sql.Tx], store.Record, error) {
	if opts.Timeouts.Acquire == 0 || s.dialect.name == sqlplane.SQLite { // SQLite runs in this process, so no server can be silent
		return s.beginOn(ctx, opts)
	}
	// The limit is the time for a connection, the same time again for the answer, and the time for a lock.
	limit := 2*opts.Timeouts.Acquire + opts.Timeouts.Lock
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel() // the transaction does not end with this context
	begun, rec, err := s.beginOn(within, opts)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = &store.Error{Kind: store.KindOf(err), Err: fmt.Errorf("the database server has not answered within %v, the limit that Timeouts sets: %w. Try: check that the server is running; if the server is only slow, a longer Timeouts.Acquire or Timeouts.Lock", limit, err)}
	}
	if t, open := begun.(*txn); open && opts.Timeouts.Statement > 0 { // if the server works, it ends a statement before this limit
		t.guard.Limit(txlimit.Limits{Statement: opts.Timeouts.Statement + opts.Timeouts.Acquire}, func() {})
	}
	return begun, rec, err
}

// beginOn begins a transaction as its database needs it.
func (s *Store) beginOn(ctx context.Context, opts store.BeginOptions) (begun store.Transaction[*sql.Tx], rec store.Record, err error) {
	if s.dialect.name == sqlplane.PostgreSQL {
		begun, rec, err = s.beginPostgres(ctx, opts)
		if s.byCommit && !opts.ID.IsZero() {
			// The first operation logs this, so that a command that only reads does not log it.
			s.logged.Do(func() { slog.WarnContext(ctx, pgsql.Unkept, "server", s.server) })
		}
	} else {
		begun, rec, err = s.begin(ctx, opts)
	}
	if t, open := begun.(*txn); open && opts.Refuse != nil {
		t.guard.Refuse(opts.Refuse)
	}
	return begun, rec, err
}

// begin begins a transaction, claims the operation, and looks the record up.
func (s *Store) begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*sql.Tx], store.Record, error) {
	if s.dialect.name == sqlplane.MySQL && !opts.ID.IsZero() {
		t, rec, err := s.claimMySQL(ctx, opts)
		if t == nil {
			return nil, rec, err
		}
		if err := s.checkDeadline(ctx, t.tx, opts.StaleAfter); err != nil {
			_ = t.end()
			return nil, store.Record{}, err
		}
		t.began()
		return t, rec, nil
	}
	t, err := s.open(ctx, opts)
	if done := (*foundError)(nil); errors.As(err, &done) {
		return nil, done.rec, nil
	}
	if err != nil {
		return nil, store.Record{}, s.down(err)
	}
	ahead := t.seen.row
	if t.tx == nil { // the look-up before BEGIN has found a result
		return nil, ahead.live(), t.found(ctx, opts, ahead.live())
	}
	switch {
	case s.dialect.timeouts != nil:
		err = s.dialect.timeouts(ctx, t.tx, opts.Timeouts)
	case s.dialect.name == sqlplane.MySQL: // MySQL without an ID: with an ID, the claim has set the timeouts
		err = t.setTimeouts(ctx, opts.Timeouts)
	}
	if err == nil && !opts.ID.IsZero() {
		t.seen, err = s.dialect.claim(s.ownContext(ctx), t.tx, opts)
	}
	switch {
	case err != nil:
		if errors.Is(err, pgsql.ErrRecovery) {
			// The connection leads to a standby. In the pool, it would make the next operation fail as well.
			_ = t.tx.Rollback()
			sqlguard.Drop(t.conn)
		}
		_ = t.end()
		return nil, store.Record{}, s.down(err)
	case t.seen.watched && !s.looksAhead(opts):
		// This answer shows that SERIALIZABLE is the default level of the database. From now on, the look-up is sent
		// before BEGIN.
		_ = t.end()
		s.watched.Store(true)
		return s.begin(ctx, opts)
	case t.seen.watched:
		// At SERIALIZABLE the claim reads no record, so the record from before BEGIN counts.
		t.seen.row = ahead
	}
	if opts.ID.IsZero() {
		t.writeIfEnded(opts.IfEnded)
		t.began()
		return t, store.Record{}, nil
	}
	rec, free := t.seen.verdict()
	if !free {
		return nil, rec, t.found(ctx, opts, rec)
	}
	if err := s.checkDeadline(ctx, t.tx, opts.StaleAfter); err != nil {
		_ = t.end()
		return nil, store.Record{}, err
	}
	t.id = opts.ID
	t.began()
	return t, rec, nil
}

// readBeforeBegin does the same as Read, but its wait for a connection is limited in the same way as that of Begin.
func (s *Store) readBeforeBegin(ctx context.Context, opts store.BeginOptions) (store.Record, error) {
	if opts.Timeouts.Acquire > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Timeouts.Acquire)
		defer cancel()
	}
	if opts.Waits == nil { // Read does not measure the wait for the connection, and is cheaper
		return s.Read(ctx, opts.ID)
	}
	conn, err := s.acquire(ctx, opts)
	if err != nil {
		return store.Record{}, s.down(err)
	}
	defer func() { _ = conn.Close() }()
	return s.readSQLite(ctx, conn, opts.ID)
}

// verdict reports whether the operation may be executed. If it may not, verdict returns the record that prevents it.
func (c *lookup) verdict() (rec store.Record, free bool) {
	rec = c.row.live()
	switch {
	case rec.State != store.StateAbsent:
		return rec, false
	case !c.granted:
		return store.Record{State: store.StateRunning}, false // in the transaction that holds the lock
	}
	return rec, true
}

// open begins a transaction. The end of ctx does not end this transaction, because the caller must not cancel a
// COMMIT. But until began is called, the end of ctx still ends it.
//
// If the server has restarted, an idle connection may be broken. Then open uses another connection. This is safe,
// because BEGIN applies nothing.
func (s *Store) open(ctx context.Context, opts store.BeginOptions) (*txn, error) {
	if s.file != nil {
		return s.openSQLite(ctx, opts)
	}
	return s.openBy(ctx, opts, func(t *txn, own context.Context) (err error) {
		if s.looksAhead(opts) {
			if err = t.lookAhead(own, opts); err != nil || t.seen.row.live().State == store.StateDone {
				return err
			}
		}
		t.tx, err = t.conn.BeginTx(t.guard.Context(own), &sql.TxOptions{Isolation: levels[opts.Isolation]})
		return err
	})
}

// openBy does the same as open, with a function that begins the transaction on a connection.
func (s *Store) openBy(ctx context.Context, opts store.BeginOptions, begin func(t *txn, own context.Context) error) (*txn, error) {
	for tries := -1; ; tries-- { // the tries that are left; -1: not counted yet
		t, own, err := s.connect(ctx, opts)
		if err != nil {
			return nil, err
		}
		if err = begin(t, own); err == nil {
			return t, nil
		}
		isBroken := broken(t.conn)
		t.release()
		if tries < 0 {
			// After a restart of the server, each idle connection may be broken. The additional try is for a new connection.
			tries = 1 + s.db.Stats().Idle
		}
		if !isBroken || tries == 0 || ctx.Err() != nil || store.KindOf(err) == store.KindBusy {
			return nil, err
		}
	}
}

// broken reports whether a connection cannot be used any more.
func broken(conn *sql.Conn) bool {
	valid := false
	err := conn.Raw(func(dc any) error {
		v, ok := dc.(driver.Validator)
		valid = !ok || v.IsValid()
		return nil
	})
	return err != nil || !valid
}

// acquire waits for a connection of the pool.
func (s *Store) acquire(ctx context.Context, opts store.BeginOptions) (*sql.Conn, error) {
	if w := opts.Waits; w != nil {
		defer func(began time.Time) { w.Acquire += time.Since(began) }(time.Now())
	}
	own, patience := ctx, opts.Timeouts.Acquire
	if patience > 0 {
		var cancel context.CancelFunc
		own, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	conn, err := s.db.Conn(own)
	// The time of Timeouts.Acquire has ended before the time of the caller, so the pool is the reason.
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the pool had no free connection and could not open a new connection within %v: %w. Try: more connections, or shorter handlers", patience, err)
	}
	return conn, err
}

// addLockWait adds the time since began to the lock waits of an operation.
func addLockWait(w *waits.Waits, began time.Time) {
	if w != nil {
		w.Lock += time.Since(began)
	}
}

// connect gets a connection for a transaction, and the context with which the transaction begins.
func (s *Store) connect(ctx context.Context, opts store.BeginOptions) (t *txn, own context.Context, err error) {
	conn, err := s.acquire(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	// database/sql rolls back when the context of BeginTx ends, but the caller must not cancel a COMMIT.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &txn{s: s, conn: conn, guard: new(sqlguard.Txn), cancel: cancel, stop: context.AfterFunc(ctx, cancel)}, own, nil
}

var levels = map[store.Isolation]sql.IsolationLevel{
	store.ReadCommitted:  sql.LevelReadCommitted,
	store.RepeatableRead: sql.LevelRepeatableRead,
	store.Serializable:   sql.LevelSerializable,
}

// found ends a transaction that has found a record. If the answer must be durable, found makes a separate commit
// that waits for the synchronous standby. The end of ctx ends the wait of this commit.
func (t *txn) found(ctx context.Context, opts store.BeginOptions, rec store.Record) error {
	defer t.release()
	switch {
	case t.tx == nil: // the look-up was sent before BEGIN, so no transaction is open
	case t.member == nil: // the connection is needed below
		_ = t.tx.Rollback()
	default:
		// The whole group was rolled back, so the record that was found may not exist any more.
		if err := t.end(); store.KindOf(err) == store.KindRetry {
			return err
		}
	}
	if !opts.Durable || rec.State != store.StateDone || t.s.dialect.synced == "" {
		return nil
	}
	_, err := t.conn.ExecContext(ctx, t.s.dialect.synced)
	if err = errors.Join(err, ctx.Err()); err != nil { // to the server, a cancelled wait is no error
		return t.s.down(err)
	}
	return nil
}
