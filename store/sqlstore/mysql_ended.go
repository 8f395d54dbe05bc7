package sqlstore

import (
	"context"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// writeIfEnded arranges that a change is written before the first statement of the handler that may end the
// transaction: see [store.BeginOptions].IfEnded.
func (t *txn) writeIfEnded(change func() store.Change) {
	if change == nil || t.s.dialect.name != sqlplane.MySQL {
		return
	}
	t.guard.BeforeMark(func(ctx context.Context, session sqlguard.Session) error {
		c := change()
		err := t.s.swapInSession(ctx, session, c)
		if err == nil {
			t.ifEnded = &c
		}
		return err
	})
}

// swapInSession writes a record through the session, without the *sql.Tx.
func (s *Store) swapInSession(ctx context.Context, session sqlguard.Session, c store.Change) error {
	change := insertMySQL(c)
	if c.KeepRequest {
		change = fill(mysqlSwapKeep, append(mysqlRecord(c), c.Expect.Fence, c.Expect.LeaseExpired, len(c.Expect.Nonce) == 0, c.Expect.Nonce)...)
	}
	rows, err := session.Exec(ctx, change)
	if is(err, mysqlDuplicate) { // the old record may have expired, and then counts as absent
		if err = session.Run(ctx, fill(mysqlDropExpired, c.ID.Scope, c.ID.Key)); err == nil {
			rows, err = session.Exec(ctx, change)
		}
	}
	switch {
	case err != nil:
		return s.failed(err, true)
	case rows != 1:
		return &store.Error{Kind: store.KindTaken, Err: errExpect}
	}
	return nil
}
