package sqlguard

import (
	"context"
	"errors"
)

// GroupTx makes a guarded transaction of SQLite one of several that follow each other on one
// connection and are committed together, by [Session.Commit]. It replaces
// BEGIN, COMMIT and ROLLBACK.
type GroupTx interface {
	// Begin runs in place of BEGIN, which is sent if it reports false.
	Begin(ctx context.Context, s Session) (begun bool, err error)

	// Context returns the context for a statement of the transaction.
	Context(ctx context.Context, query string) context.Context

	// Commit runs in place of COMMIT. After an error the transaction is rolled back.
	Commit(s Session) error

	// Rollback runs in place of ROLLBACK, which is sent if it reports false.
	Rollback(s Session) (rolledBack bool)

	// Ended is called when COMMIT or ROLLBACK has ended.
	Ended()
}

// GroupSavepoint is a name that statements in a [GroupTx] may not use: it is for the savepoint
// with which one begins.
const GroupSavepoint = "once_part"

var errSavepoint = errors.New("the statement was not sent, because once itself uses a savepoint with this name. Try: another name")

type groupTxKey struct{}

// InGroup is Context for a transaction that is a [GroupTx].
func (t *Txn) InGroup(ctx context.Context, p GroupTx) context.Context {
	return context.WithValue(t.Context(ctx), groupTxKey{}, p)
}

func groupTxOf(ctx context.Context) GroupTx {
	p, _ := ctx.Value(groupTxKey{}).(GroupTx)
	return p
}

// Session is a guarded connection, for statements outside of a transaction.
type Session struct{ conn *conn }

// SessionOf returns the session of a driver connection, as sql.Conn.Raw hands it out, if it is
// guarded and speaks d.
func SessionOf(driverConn any, d Dialect) (Session, bool) {
	c, ok := find(driverConn)
	return Session{c}, ok && c.dialect == d
}

// Run runs a statement of once's own.
func (s Session) Run(ctx context.Context, query string) error { return s.conn.run(Own(ctx), query) }

// Exec is Run for callers that need the number of affected rows.
func (s Session) Exec(ctx context.Context, query string) (rows int64, err error) {
	r, err := s.conn.runs(Own(ctx), query)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Driver returns the driver's connection.
func (s Session) Driver() any { return s.conn.base }

// Abandon rolls back a transaction that may be open, and has the pool drop the connection if it cannot.
func (s Session) Abandon(ctx context.Context) { s.conn.abandon(Own(ctx)) }

// Commit commits the transactions of a group. The error is a *[CommitError], and the
// transaction is over then.
func (s Session) Commit(ctx context.Context) error {
	err := s.Run(ctx, "COMMIT")
	if err == nil {
		return nil
	}
	failed := newCommitError(s.conn.dialect, err)
	s.Abandon(ctx)
	if failed.InDoubt {
		s.conn.broken = true // its state is unknown
	}
	return failed
}
