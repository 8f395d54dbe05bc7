package sqlguard

import (
	"context"

	"github.com/oncelib/once/internal/sql/txlimit"
)

// call is a call of the driver for a statement, and the time limits of that call.
type call struct {
	watch     *txlimit.Watch     // of the transaction
	statement *txlimit.Statement // of the statement
}

// enter begins a call for a statement under t.
func (t *Txn) enter(query string) (call, error) {
	k := call{watch: t.watch.Load()}
	if err := k.watch.Enter(false); err != nil {
		return call{}, t.refuse(query, err)
	}
	return k, nil
}

// begin begins the call that runs a statement.
func (c *conn) begin(ctx context.Context, t *Txn, query string) (within context.Context, k call, err error) {
	if err := c.markBefore(ctx, t, query); err != nil {
		return nil, k, err
	}
	if k, err = t.enter(query); err != nil {
		return nil, k, err
	}
	if !owns(ctx) { // the store's own statements are short, and are not interrupted
		if c.tx != nil && c.tx.group != nil {
			ctx = c.tx.group.Context(ctx, query)
		}
		ctx, k.statement = k.watch.Statement(ctx)
	}
	k.statement.Start()
	return ctx, k, nil
}

// end ends the call. If the statement has rows, its time continues with the rows.
func (k call) end(err error, rows bool) error {
	err = k.statement.Stop(err, false)
	if !rows || err != nil {
		k.statement.Release()
	}
	k.watch.Leave()
	return err
}

// again makes a further call for the rows of the same statement.
func (k call) again(closes bool, run func() error) error {
	if k.watch == nil {
		return run()
	}
	// A call that closes rows is always allowed, because the driver must be able to free them.
	if err := k.watch.Enter(closes); err != nil {
		return err
	}
	defer k.watch.Leave()
	if closes {
		defer k.statement.Release()
		return run()
	}
	k.statement.Start()
	return k.statement.Stop(run(), true)
}
