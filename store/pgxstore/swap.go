package pgxstore

import (
	"context"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// Swap implements [store.Operations] with one round trip.
func (s *Store) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if err := s.unsendable(c.ID); err != nil {
		return store.Record{}, err
	}
	if err := checkKeep(c); err != nil {
		return store.Record{}, err
	}
	var b pipeline
	queueSwap(&b, c)
	queueWrites(&b, nil, c.Writes)
	refused, err := s.swap(ctx, b, c.Writes)
	switch {
	case err == nil:
		return c.Next, nil
	case store.KindOf(err) == store.KindTaken && !c.ID.IsZero() && refused.sql != pgsql.Held:
		return s.inTheWay(ctx, c, refused, err)
	}
	return store.Record{}, err
}

// swap runs b without BEGIN and COMMIT. A pipeline is an implicit transaction, at the isolation level of the session.
func (s *Store) swap(ctx context.Context, b pipeline, writes []store.Statement) (failed statement, err error) {
	if checkBatchWrites(writes, s.simple) == nil { // no statement of the pipeline can commit
		failed, err = s.inTransaction(ctx, b, false)
		if store.KindOf(err) != store.KindRetry || ctx.Err() != nil {
			// At a level above READ COMMITTED, concurrent changes cause KindRetry. Then b runs again at READ COMMITTED.
			return failed, err
		}
	}
	return s.apart(ctx, b)
}

// apart runs b in a separate transaction, in one round trip. It uses READ COMMITTED: at a higher level, a row that has
// changed since the beginning of the transaction would cause an error, whatever b expects of the row. It returns the
// failed statement.
func (s *Store) apart(ctx context.Context, b pipeline) (failed statement, err error) {
	return s.inTransaction(ctx, b, true)
}

// inTransaction runs b in a separate transaction. If explicit is true, it sends BEGIN at READ COMMITTED, and COMMIT.
func (s *Store) inTransaction(ctx context.Context, b pipeline, explicit bool) (failed statement, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return failed, down(err)
	}
	defer conn.Release()
	all := b
	if explicit {
		all = make(pipeline, 0, len(b)+2)
		all.queue(beginText[store.ReadCommitted])
		all = append(all, b...)
		all.queue(commit)
	}
	br, err := s.sendPrepared(ctx, ctx, conn.Conn(), all)
	if err != nil {
		return failed, unsent(conn.Conn(), err, false)
	}
	n, tag, err := results(ctx, br, all)
	// The server answers the COMMIT of a failed transaction with ROLLBACK, and not with an error.
	if err == nil && explicit && tag.String() != commit {
		err = errNotCommitted(tag)
	}
	if err == nil {
		return failed, nil
	}
	if conn.Conn().PgConn().TxStatus() == 'E' {
		answer := awaitAnswer(conn.Conn(), abandonTime)
		_, e := conn.Exec(context.WithoutCancel(ctx), "rollback")
		_ = answer.stop(e) // if the rollback fails, the pool finds the open transaction and closes the connection
	}
	if refusedByStandby(ctx, conn.Conn(), err) {
		return failed, down(pgsql.ErrRecovery)
	}
	return all.at(n), s.failure(ctx, conn.Conn(), all, n, err)
}

// inTheWay returns the record that has made a Swap fail.
func (s *Store) inTheWay(ctx context.Context, c store.Change, refused statement, taken error) (store.Record, error) {
	r, err := s.look(ctx, c.ID)
	switch {
	case err != nil:
		return store.Record{}, down(err)
	case r.live().State == store.StateAbsent && c.Expect.Fence == 0 && refused.sql == pgsql.SwapInsert:
		return store.Record{State: store.StateRunning}, taken // an open transaction holds the claim
	}
	return r.live(), taken
}
