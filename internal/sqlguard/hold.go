package sqlguard

import (
	"context"
	"errors"
)

// ErrHeld is the error of a COMMIT while the Txn is held. The transaction has been
// rolled back.
var ErrHeld = errors.New("once: the transaction ends with the handler, and was rolled back. Try: return from the handler without tx.Commit")

// Hold makes COMMIT a refusal, which rolls back, until Release is called: the
// transaction is lent to somebody who must not end it. It returns whether it is lent
// already: then Release is the business of who has lent it first.
func (t *Txn) Hold() (already bool) {
	t = t.real()
	t.leash.Load().hold(true)
	return t.held.Swap(true)
}

// Armed reports whether t guards a transaction, or has joined one that is guarded.
func (t *Txn) Armed() bool { return t.real().phase.Load() == live }

// Release undoes Hold.
func (t *Txn) Release() {
	t = t.real()
	t.leash.Load().hold(false)
	t.held.Store(false)
}

// RolledBack reports whether a failed statement may have rolled everything back.
func (t *Txn) RolledBack(d Dialect) bool {
	t = t.real()
	if d == PostgreSQL {
		return false // there it never does
	}
	return t.rolledBack(d)
}

type joinKey struct{}

// Join is Context for a statement in a transaction that may be guarded already:
// then t becomes another view of the guard that is there.
func (t *Txn) Join(ctx context.Context) context.Context {
	return context.WithValue(t.Context(ctx), joinKey{}, true)
}

func joins(ctx context.Context) bool { return ctx.Value(joinKey{}) != nil }

// real returns the Txn that guards.
func (t *Txn) real() *Txn {
	if v := t.view.Load(); v != nil {
		return v
	}
	return t
}
