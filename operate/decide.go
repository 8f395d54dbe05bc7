package operate

import (
	"context"
	"errors"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// Decided is a decision about an operation, together with the effect of the decision. A Decided can be printed as text for people and as JSON for
// scripts.
type Decided struct {
	Resolved bool   `json:"resolved"` // true if the decision is written; false in a preview
	Already  bool   `json:"already"`  // true if the same decision was written before, so that nothing was changed now
	Effect   string `json:"effect"`   // what a retry of the operation does now; if Already is true, the text in the audit

	lease.Progress            // the progress of the operation before the decision
	Operation      *Operation `json:"operation"` // the operation as it is now
}

// Progress returns the progress of a leased operation. If the operation is not leased work of package lease, the progress is empty.
func (a *Keys) Progress(ctx context.Context, id store.ID) (p lease.Progress, err error) {
	ops, ok := store.As[store.Operations](a.db)
	if !ok {
		return p, nil
	}
	rec, err := ops.Read(ctx, id)
	if err != nil {
		return p, err //nolint:wrapcheck // it is of the store
	}
	if p, err = lease.ProgressOf(id, rec); err != nil {
		return lease.Progress{}, nil //nolint:nilerr // a damaged progress must not hide the operation
	}
	return p, nil
}

// Decide writes the decision d about an operation whose outcome is unknown and, in the same commit, an entry of the audit table: see [lease.Resolve].
// If the same decision was written before, nothing changes. Decide uses the fields Who and Reason of by, and ignores the same fields of d.
func (a *Keys) Decide(ctx context.Context, by By, id store.ID, d lease.Resolution) error {
	if err := by.check(); err != nil {
		return err
	}
	ops, err := a.operations()
	if err != nil {
		return err
	}
	if err := checkValue(ctx, ops, id, d); err != nil {
		return err
	}
	d.Who, d.Reason = by.Who, by.Reason
	return lease.Resolve(ctx, ops, id, d) //nolint:wrapcheck // its text is complete
}

// CheckDecision returns the error that Decide would return now. CheckDecision changes nothing.
func (a *Keys) CheckDecision(ctx context.Context, id store.ID, d lease.Resolution) error {
	ops, err := a.operations()
	if err != nil {
		return err
	}
	if err := checkValue(ctx, ops, id, d); err != nil {
		return err
	}
	d.Who, d.Reason = "", ""                         // only the store itself can write an audit, and unchanged is no store
	return lease.Resolve(ctx, unchanged{ops}, id, d) //nolint:wrapcheck // likewise
}

// checkValue refuses a value for the forward of a gateway. The caller of the gateway waits for an answer and not for a value, and the next retry
// would reject most values.
func checkValue(ctx context.Context, ops store.Operations, id store.ID, d lease.Resolution) error {
	if d.CallValue == nil {
		return nil
	}
	rec, err := ops.Read(ctx, id)
	if err != nil {
		return err //nolint:wrapcheck // it is of the store
	}
	p, err := lease.ProgressOf(id, rec)
	if err != nil || p.Call == nil || !wire.IsForward(rec.Name, p.Call.Phase) {
		return nil //nolint:nilerr // lease.Resolve returns the same error
	}
	return &store.Error{Kind: store.KindMisused, Err: errForward}
}

var errForward = errors.New("the call is a request that a gateway has forwarded, so the decision must contain the answer of the service. Try: --result FILE --status 201")

// Record returns the stored record of an operation. If no record exists, the State of the result is [store.StateAbsent].
func (a *Keys) Record(ctx context.Context, id store.ID) (store.Record, error) {
	ops, err := a.operations()
	if err != nil {
		return store.Record{}, err
	}
	return ops.Read(ctx, id) //nolint:wrapcheck // it is of the store
}

func (a *Keys) operations() (store.Operations, error) {
	ops, ok := store.As[store.Operations](a.db)
	if !ok {
		return nil, errNoOperations
	}
	return ops, nil
}

// unchanged has operations whose changes are checked and not made.
type unchanged struct{ store.Operations }

// Swap implements [store.Operations].
func (unchanged) Swap(context.Context, store.Change) (store.Record, error) {
	return store.Record{}, nil
}

var errNoOperations = errors.New("operate: the store keeps no operations. Try: pgxstore or sqlstore")
