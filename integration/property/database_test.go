package property

import (
	"context"
	"slices"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// database is a memstore in which a claim can also be had blindly: without a look-up,
// or by one that is older than the claim, as under Attempt.Number or a snapshot.
type database struct {
	*memstore.Store
	unseen []store.ID // claimed so
}

// blind returns the operation under which a transaction is opened that shall have the
// claim of id whatever its record is. The caller has made sure that it is free.
func (d *database) blind(id store.ID) store.ID {
	d.unseen = append(d.unseen, id)
	id.Key += " unseen"
	return id
}

// held reports whether id is claimed blindly, and has no record that says more.
func (d *database) held(ctx context.Context, id store.ID) bool {
	rec, err := d.Read(ctx, id)
	return err == nil && rec.State == store.StateAbsent && slices.Contains(d.unseen, id)
}

func (d *database) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
	if d.held(ctx, ask.ID) {
		return nil, store.Record{State: store.StateRunning}, nil
	}
	return d.Store.Begin(ctx, ask)
}

func (d *database) Join(ctx context.Context, user tx, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
	if d.held(ctx, ask.ID) {
		return nil, store.Record{State: store.StateRunning}, nil
	}
	return d.Store.Join(ctx, user, ask)
}

func (d *database) Swap(ctx context.Context, ch store.Change) (store.Record, error) {
	if d.held(ctx, ch.ID) {
		return store.Record{State: store.StateRunning}, &store.Error{Kind: store.KindTaken, Err: errGone}
	}
	return d.Store.Swap(ctx, ch)
}
