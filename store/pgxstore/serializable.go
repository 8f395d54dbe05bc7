package pgxstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
)

// At SERIALIZABLE, the look-up must not be a part of the transaction. The server tracks the reads of the transaction
// (SSI), and new keys are neighbours in the index. So operations with different keys would conflict. The look-up is
// sent before BEGIN, in a separate READ COMMITTED transaction of the same round trip. It may miss a record that is
// committed before the claim is taken. Then the primary key refuses the new record at the end, and the operation starts
// again, as after every snapshot that is older than the claim.

// looksUpFirst reports whether the look-up is sent before BEGIN. The first transaction at the default level finds out
// whether this level is SERIALIZABLE.
func (s *Store) looksUpFirst(opts store.BeginOptions) bool {
	return looksUp(opts) && (opts.Isolation == store.Serializable || opts.Isolation == store.DefaultIsolation && s.watched.Load())
}

// endLookUp ends the transaction of the look-up. Its text differs from the COMMIT of the operation, so that code
// which inspects the traffic can distinguish the two.
const endLookUp = "commit"

// lookUp returns the transaction of the look-up.
func lookUp(ctx context.Context, opts store.BeginOptions) pipeline {
	b := make(pipeline, 0, 8) // room for BEGIN and the claim, too
	b.queue(beginText[store.ReadCommitted])
	queueBounds(&b, budget(ctx, opts.Timeouts.Statement), opts.Timeouts)
	b.queue(pgsql.Read, opts.ID.Scope, opts.ID.Key)
	b.queue(endLookUp)
	return b
}

// lookWatched looks the record up inside a SERIALIZABLE transaction of the caller. It first uses a probe, whose reads
// the server does not track. So an absent record causes no conflict.
func (c *lookup) lookWatched(ctx context.Context, caller pgx.Tx, opts store.BeginOptions) error {
	if c.granted {
		// The probe is an insert. Without the claim it would wait for the holder of the claim.
		absent, err := c.probe(ctx, caller, opts)
		if err != nil || absent {
			return err
		}
	}
	var err error
	c.row, err = scan(caller.QueryRow(ctx, pgsql.Read, opts.ID.Scope, opts.ID.Key))
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return err
}

// probe reports whether no record exists. If StaleAfter is set, it asks again whether the operation is too late.
func (c *lookup) probe(ctx context.Context, caller pgx.Tx, opts store.BeginOptions) (absent bool, err error) {
	var b pipeline
	// The probe inserts a row if no record exists, and this row must be undone.
	b.queue("savepoint once_probe")
	b.queue(pgsql.Probe, opts.ID.Scope, opts.ID.Key)
	b.queue("rollback to savepoint once_probe")
	b.queue("release savepoint once_probe")
	if !opts.StaleAfter.IsZero() {
		b.queue(pgsql.Late, opts.StaleAfter)
	}
	br := caller.SendBatch(ctx, b.batch())
	for i := 0; i < len(b) && err == nil; i++ {
		var tag pgconn.CommandTag
		switch b[i].sql {
		case pgsql.Probe:
			tag, err = br.Exec()
			absent = tag.RowsAffected() == 1
		case pgsql.Late:
			err = br.QueryRow().Scan(&c.late)
		default:
			_, err = br.Exec()
		}
	}
	if e := br.Close(); err == nil {
		err = e
	}
	return absent, err
}
