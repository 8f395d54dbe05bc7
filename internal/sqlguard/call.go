package sqlguard

import "context"

// call is one call of the driver for a statement under t.
type call struct {
	leash  *leash
	budget *budget
}

// enter begins a call for a statement under t.
func (t *Txn) enter(query string) (call, error) {
	k := call{leash: t.leash.Load()}
	if err := k.leash.enter(false); err != nil {
		return call{}, t.refuse(query, err)
	}
	return k, nil
}

// begin begins the call that runs a statement.
func (c *conn) begin(ctx context.Context, t *Txn, query string) (within context.Context, k call, err error) {
	if k, err = t.enter(query); err != nil {
		return nil, k, err
	}
	if !owns(ctx) && c.tx != nil && c.tx.part != nil {
		ctx = c.tx.part.Context(ctx, query)
	}
	if !owns(ctx) {
		ctx, k.budget = k.leash.budget(ctx)
	}
	k.budget.start()
	return ctx, k, nil
}

// end ends it. The budget goes on with the rows, if there are any.
func (k call) end(err error, rows bool) error {
	err = k.budget.stop(err, false)
	if !rows || err != nil {
		k.budget.free()
	}
	k.leash.leave()
	return err
}

// again is another call for the rows of the same statement.
func (k call) again(closes bool, run func() error) error {
	if k.leash == nil {
		return run()
	}
	if err := k.leash.enter(closes); err != nil {
		return err
	}
	defer k.leash.leave()
	if closes {
		defer k.budget.free()
		return run()
	}
	k.budget.start()
	return k.budget.stop(run(), true)
}
