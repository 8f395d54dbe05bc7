package pgxstore

import (
	"context"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// Swap is one round trip: a pipeline is an implicit transaction.
func (s *Store) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if err := s.unsendable(c.ID); err != nil {
		return store.Record{}, err
	}
	expired := false
	for {
		var b pipeline
		if expired {
			b.queue(pgsql.Expired, c.ID.Scope, c.ID.Key)
		}
		record := -1
		if !c.ID.IsZero() {
			record = len(b)
			queueSwap(&b, c)
		}
		queueWrites(&b, c.Writes)
		failed, err := s.apart(ctx, b)
		switch {
		case err == nil:
			return c.Next, nil
		case failed < 0:
			if store.KindOf(err) == store.KindMisused {
				return store.Record{}, err
			}
			return store.Record{}, down(err)
		}
		err = classify(err, failed == record)
		if store.KindOf(err) != store.KindTaken {
			return store.Record{}, err
		}
		var r row
		if r, expired, err = s.inTheWay(ctx, c, expired, err); expired {
			continue
		}
		return r.Record, err
	}
}

// apart is run on a connection of its own; failed is -1 if there is none to the primary.
func (s *Store) apart(ctx context.Context, b pipeline) (failed int, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return -1, err
	}
	defer conn.Release()
	if err := s.probe(ctx, conn.Conn(), conn.Conn()); err != nil {
		return -1, err
	}
	failed, _, err = s.run(ctx, conn.Conn(), b)
	if refusedByStandby(ctx, conn.Conn(), err) {
		return -1, pgsql.ErrRecovery
	}
	return failed, err
}

// inTheWay reads what has made a Swap fail, and whether that was only an expired
// record that can be replaced.
func (s *Store) inTheWay(ctx context.Context, c store.Change, tried bool, taken error) (r row, replace bool, err error) {
	r, err = s.look(ctx, c.ID)
	switch {
	case err != nil:
		return row{}, false, down(err)
	case r.State == store.StateAbsent && c.Expect.Fence == 0:
		return row{Record: store.Record{State: store.StateRunning}}, false, taken // claimed by an open transaction
	case r.State == store.StateAbsent:
		return row{}, false, taken
	case r.expired && c.Expect.Fence == 0 && !tried:
		return row{}, true, nil
	}
	return row{Record: r.live()}, false, taken
}

func queueSwap(b *pipeline, c store.Change) {
	n := c.Next
	if n.State == store.StateAbsent {
		b.queue(pgsql.SwapDelete, c.ID.Scope, c.ID.Key, c.Expect.Fence, c.Expect.LeaseExpired)
		return
	}
	fields := []any{n.State, n.Fence, n.Nonce, n.Fingerprint, n.Result.Status, n.Result.Kind, store.EncodeHeader(n.Result.Header),
		n.Result.Body, n.Request, n.RecoveryPoint, n.CallStarted, n.Data, millis(c.Lease), millis(c.Retain)}
	if c.Expect.Fence == 0 {
		args := append([]any{c.ID.Scope, c.ID.Key, pgsql.LockID(c.ID)}, fields...)
		b.queue(pgsql.SwapInsert, args...)
		return
	}
	args := append([]any{c.ID.Scope, c.ID.Key}, fields...)
	b.queue(pgsql.SwapUpdate, append(args, c.Expect.Fence, c.Expect.LeaseExpired)...)
}
