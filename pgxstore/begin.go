package pgxstore

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// claim is what the first round trip has brought.
type claim struct {
	start   time.Time // of the transaction
	granted bool
	row     row
	late    bool // for what is absent
}

// Begin sends BEGIN, the claim and the look-up in one round trip.
func (s *Store) Begin(ctx context.Context, ask store.Ask) (store.Txn[pgx.Tx], store.Record, error) {
	ask.First = ask.First && ask.Until.IsZero()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, store.Record{}, down(err)
	}
	var b pgx.Batch
	b.BeginTx(options(ask.Isolation))
	queueClaim(ctx, &b, ask)
	br := conn.Conn().SendBatch(ctx, &b)
	c, err := readClaim(br, &b, ask)
	raw := br.Tx()
	if e := br.Close(); err == nil {
		err = e
	}
	t := &txn{conn: conn, raw: raw, claim: c}
	t.user = &tx{Tx: raw, root: &t.statements}
	switch {
	case err != nil:
		t.abandon(ctx)
		return nil, store.Record{}, down(err)
	case ask.ID.IsZero():
		return t, store.Record{}, nil
	}
	rec := c.row.live()
	switch {
	case rec.State == store.Done && ask.Durable:
		return nil, rec, t.synced(ctx)
	case rec.State == store.Absent && c.granted && c.late:
		err = stale()
	case rec.State == store.Absent && c.granted:
		return t, rec, nil
	case rec.State == store.Absent:
		rec = store.Record{State: store.Running} // by the transaction that has the lock
	}
	go t.abandon(ctx) // the caller need not wait for the answer to ROLLBACK
	return nil, rec, err
}

func queueClaim(ctx context.Context, b *pgx.Batch, ask store.Ask) {
	if ms := budget(ctx); ms != "" {
		b.Queue(pgsql.Budget, ms)
	}
	if ask.ID.IsZero() {
		return
	}
	b.Queue(pgsql.Lock, pgsql.LockID(ask.ID))
	if !ask.First {
		b.Queue(pgsql.Read, ask.ID.Scope, ask.ID.Key)
	}
	if !ask.Until.IsZero() {
		b.Queue(pgsql.Late, ask.Until)
	}
}

// readClaim reads the answers to what queueClaim has queued, the last ones of b.
func readClaim(br pgx.BatchResults, b *pgx.Batch, ask store.Ask) (c claim, err error) {
	front := b.Len() // BEGIN or a savepoint, and the budget
	switch {
	case ask.ID.IsZero():
	case ask.First:
		front--
	default:
		front -= 2
	}
	if !ask.Until.IsZero() {
		front--
	}
	for range front {
		if _, err := br.Exec(); err != nil {
			return c, err
		}
	}
	if ask.ID.IsZero() {
		return c, nil
	}
	if err := br.QueryRow().Scan(&c.start, &c.granted); err != nil || ask.First {
		return c, err
	}
	rows, err := br.Query() // not QueryRow, for which no row is an error that has to be made
	if err != nil {
		return c, err
	}
	defer rows.Close()
	if rows.Next() {
		if c.row, err = scan(rows); err != nil {
			return c, err
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil || ask.Until.IsZero() {
		return c, err
	}
	return c, br.QueryRow().Scan(&c.late)
}

// budget is the time that ctx leaves, as a statement_timeout that ends a little
// before ctx does: then it is the server that says no, and the connection survives.
func budget(ctx context.Context) string {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ""
	}
	return strconv.FormatInt(min(max(1, time.Until(deadline).Milliseconds()-20), math.MaxInt32), 10)
}

func options(i store.Isolation) pgx.TxOptions {
	switch i {
	case store.ReadCommitted:
		return pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	case store.RepeatableRead:
		return pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	case store.Serializable:
		return pgx.TxOptions{IsoLevel: pgx.Serializable}
	}
	return pgx.TxOptions{}
}

// synced ends a transaction that has found a record by a commit that waits for the
// synchronous standby: everything before it is then as durable as it is.
func (t *txn) synced(ctx context.Context) error {
	var b pgx.Batch
	b.Queue(pgsql.Synced)
	b.Queue(commit)
	if err := t.conn.Conn().SendBatch(ctx, &b).Close(); err != nil {
		t.abandon(ctx)
		return down(err)
	}
	t.closed()
	return nil
}

// abandon rolls back, cancelled or not, and gives the connection back. A pool
// drops a connection whose transaction is still open.
func (t *txn) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = t.raw.Rollback(ctx)
	t.conn.Release()
}

// closed gives the connection back after COMMIT has travelled in a batch. pgx does
// not know that its transaction is over. Only large objects can still get at that; a
// commit under a dead context, which sends nothing, then closes it.
func (t *txn) closed() {
	if t.user.large {
		_ = t.raw.Commit(dead)
	}
	t.conn.Release()
}

var dead = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
