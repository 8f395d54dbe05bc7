package sqlguard

import (
	"context"
	"database/sql"
	"errors"
)

// ErrUnguarded is the error of [Txn.JoinTx] for a transaction of another *sql.DB.
var ErrUnguarded = errors.New("once: this *sql.Tx does not belong to a *sql.DB of sqlstore.Open or sqlstore.OpenDB. Try: begin the transaction on such a *sql.DB")

// visitText reaches the connection of a transaction through its *sql.Tx. The guard answers it, so that nothing is sent. Without a
// guard the statement does no harm.
const visitText = "select 1 /* for the guard of once */"

// visit is a function that runs on the connection.
type visit struct {
	run     func(*conn) error
	arrived bool
}

type visitKey struct{}

// visited runs the visit of a context, if the context has one.
func (c *conn) visited(ctx context.Context) (visited bool, err error) {
	v, _ := ctx.Value(visitKey{}).(*visit)
	if v == nil {
		return false, nil
	}
	v.arrived = true
	return true, v.run(c)
}

// visitTx runs fn on the connection of tx. guarded is false if the connection is not guarded.
func visitTx(ctx context.Context, tx *sql.Tx, fn func(*conn) error) (guarded bool, err error) {
	v := &visit{run: fn}
	// WithoutCancel, because database/sql does not reach the connection after ctx has ended.
	_, err = tx.ExecContext(context.WithValue(context.WithoutCancel(ctx), visitKey{}, v), visitText)
	return v.arrived, err
}

// JoinTx makes t guard tx from now on, or makes t another view of the guard of tx. This happens before query runs. If tx is
// guarded, JoinTx sends nothing. On another *sql.Tx of a guarded *sql.DB, it asks whether the transaction is still open.
// After an error tx does not commit, unless the error is [ErrUnguarded].
func (t *Txn) JoinTx(ctx context.Context, tx *sql.Tx, query string) error {
	guarded, err := visitTx(ctx, tx, func(c *conn) error {
		err := ctx.Err()
		if err == nil {
			_, err = c.enter(t.Join(ctx), query)
		}
		// The transaction has no guard yet. It gets one, so that the guard can refuse the commit.
		if err != nil && c.tx != nil && c.tx.txn == nil && t.claim() == nil {
			c.tx.txn, t.isolation = t, c.tx.isolation
		}
		c.failed(query, err)
		return err
	})
	if !guarded && !errors.Is(err, sql.ErrTxDone) {
		return errors.Join(ErrUnguarded, err)
	}
	return err
}

// FailTx records that query has failed in tx, if no statement has failed yet. It is for errors that the driver does not know.
func FailTx(ctx context.Context, tx *sql.Tx, query string, failed error) {
	_, _ = visitTx(ctx, tx, func(c *conn) error { // a transaction that has ended cannot fail any more
		c.failed(query, failed)
		return nil
	})
}

// OpenTx sends the BEGIN of tx, if it was delayed until the first statement.
func OpenTx(ctx context.Context, tx *sql.Tx) error {
	_, err := visitTx(ctx, tx, func(c *conn) error { return c.open(ctx) })
	return err
}

// PingTx asks the database of tx whether it still answers.
func PingTx(ctx context.Context, tx *sql.Tx) error {
	guarded, err := visitTx(ctx, tx, func(c *conn) error { return c.Ping(ctx) })
	if !guarded && err == nil {
		return ErrUnguarded
	}
	return err
}

// failed records an error in the guard of the open transaction, unless the guard already has an error.
func (c *conn) failed(query string, err error) {
	if t := c.guarded(); err != nil && t != nil && t.failure.Load() == nil {
		t.fail(t.made, query, err)
	}
}
