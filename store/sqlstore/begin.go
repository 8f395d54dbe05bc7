package sqlstore

import (
	"context"
	"database/sql"

	"github.com/oncelib/once/internal/sqlguard"
	"github.com/oncelib/once/store"
)

// Begin opens a guarded transaction, claims and looks up.
func (s *Store) Begin(ctx context.Context, ask store.Ask) (store.Txn[*sql.Tx], store.Record, error) {
	if s.dialect.name == SQLite && !ask.ID.IsZero() && !ask.First { // a replay need not wait for other writers
		if rec, err := s.Read(ctx, ask.ID); err != nil || rec.State == store.Done {
			return nil, rec, err
		}
	}
	if s.dialect.name == MySQL && !ask.ID.IsZero() {
		t, rec, err := s.claimMySQL(ctx, ask)
		if t == nil {
			return nil, rec, err
		}
		t.began()
		return t, rec, nil
	}
	t, err := s.open(ctx, ask.Isolation)
	if err != nil {
		return nil, store.Record{}, s.down(err)
	}
	if ask.ID.IsZero() {
		t.began()
		return t, store.Record{}, nil
	}
	if t.claim, err = s.dialect.claim(ctx, t.tx, ask); err != nil {
		_ = t.end()
		return nil, store.Record{}, s.down(err)
	}
	rec, free := t.claim.verdict()
	if !free {
		return nil, rec, t.found(ctx, ask, rec)
	}
	t.began()
	return t, rec, nil
}

// verdict says whether there is something to execute, and what is in the way if not.
func (c claim) verdict() (rec store.Record, free bool) {
	rec = c.row.live()
	switch {
	case rec.State != store.Absent:
		return rec, false
	case !c.granted:
		return store.Record{State: store.Running}, false // by the transaction that has the lock
	}
	return rec, true
}

// open begins a transaction that outlives the end of ctx: COMMIT is not the
// caller's to cancel. Until began is called, ctx still ends it.
func (s *Store) open(ctx context.Context, isolation store.Isolation) (*txn, error) {
	t, own, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	undo := s.patience(ctx, t.conn)
	t.tx, err = t.conn.BeginTx(t.guard.Context(own), &sql.TxOptions{Isolation: levels[isolation]})
	undo()
	if err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// connect gets a connection for a transaction and the context to begin it with.
func (s *Store) connect(ctx context.Context) (t *txn, own context.Context, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &txn{s: s, conn: conn, guard: new(sqlguard.Txn), cancel: cancel, stop: context.AfterFunc(ctx, cancel)}, own, nil
}

var levels = map[store.Isolation]sql.IsolationLevel{
	store.ReadCommitted:  sql.LevelReadCommitted,
	store.RepeatableRead: sql.LevelRepeatableRead,
	store.Serializable:   sql.LevelSerializable,
}

// found ends a transaction that has found a record. A durable answer is a commit
// that waits for the synchronous standby.
func (t *txn) found(ctx context.Context, ask store.Ask, rec store.Record) error {
	if !ask.Durable || rec.State != store.Done || t.s.dialect.synced == "" {
		_ = t.end()
		return nil
	}
	_, err := t.tx.ExecContext(ctx, t.s.dialect.synced)
	if err == nil {
		err = t.tx.Commit()
	}
	if err != nil {
		_ = t.tx.Rollback()
		t.release()
		return t.s.down(err)
	}
	t.release()
	return nil
}
