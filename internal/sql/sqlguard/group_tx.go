package sqlguard

import (
	"context"
	"errors"
)

// GroupTx makes a guarded transaction of SQLite one of several sequential transactions on one connection. [Session.Commit]
// commits all of them together. GroupTx replaces BEGIN, COMMIT and ROLLBACK.
type GroupTx interface {
	// Begin runs instead of BEGIN. If begun is false, BEGIN is sent.
	Begin(ctx context.Context, s Session) (begun bool, err error)

	// Context returns the context for a statement of the transaction.
	Context(ctx context.Context, query string) context.Context

	// Commit runs instead of COMMIT. After an error the transaction is rolled back.
	Commit(s Session) error

	// Rollback runs instead of ROLLBACK. If rolledBack is false, ROLLBACK is sent.
	Rollback(s Session) (rolledBack bool)

	// Ended is called after COMMIT or ROLLBACK.
	Ended()
}

// GroupSavepoint is the name of the savepoint with which a [GroupTx] begins. Statements of handlers may not use this name.
const GroupSavepoint = "once_part"

var errSavepoint = errors.New("the statement was not sent, because the library \"once\" uses a savepoint with this name. Try: another name")

type groupTxKey struct{}

// InGroup is Context for a transaction that is a [GroupTx].
func (t *Txn) InGroup(ctx context.Context, p GroupTx) context.Context {
	return context.WithValue(t.Context(ctx), groupTxKey{}, p)
}

func groupTxOf(ctx context.Context) GroupTx {
	p, _ := ctx.Value(groupTxKey{}).(GroupTx)
	return p
}

// Session is a guarded connection, for statements outside a transaction.
type Session struct{ conn *conn }

// SessionOf returns the session of a driver connection from sql.Conn.Raw. ok is false unless the connection is guarded and has
// the dialect d.
func SessionOf(driverConn any, d Dialect) (Session, bool) {
	c, ok := find(driverConn)
	return Session{c}, ok && c.dialect == d
}

// Run runs a statement of the store itself.
func (s Session) Run(ctx context.Context, query string) error { return s.conn.run(Own(ctx), query) }

// Exec does the same as Run, and returns the number of affected rows.
func (s Session) Exec(ctx context.Context, query string) (rows int64, err error) {
	r, err := s.conn.runs(Own(ctx), query)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Driver returns the driver's connection.
func (s Session) Driver() any { return s.conn.base }

// Abandon rolls back a transaction that may be open. If this fails, the pool drops the connection.
func (s Session) Abandon(ctx context.Context) { s.conn.abandon(Own(ctx)) }

// Commit commits the transactions of a group. The error is a *[CommitError], and then the transaction has ended.
func (s Session) Commit(ctx context.Context) error {
	err := s.Run(ctx, "COMMIT")
	if err == nil {
		return nil
	}
	failed := newCommitError(s.conn.dialect, err)
	s.Abandon(ctx)
	if failed.InDoubt {
		s.conn.broken = true // its state is not known
	}
	return failed
}
