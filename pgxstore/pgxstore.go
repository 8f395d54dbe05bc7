// Package pgxstore keeps operations in PostgreSQL, through pgx: key, business
// write and result commit together, with no round trip and no commit more than
// the bare transaction.
//
//	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
//	...
//	err = pgxstore.Migrate(ctx, pool)
//	...
//	engine := once.New(pgxstore.New(pool), once.Config{})
//
// BEGIN, the claim and the look-up travel in one pipelined round trip; the record
// and COMMIT in another. The handler gets an ordinary [pgx.Tx]. A first attempt
// (once.Operation.First; over HTTP, Once-Attempt: 1) needs no look-up: BEGIN and the claim
// travel with the handler's first statement, if that is an Exec or Query with arguments
// (and neither a [pgx.QueryExecMode] nor [pgx.NamedArgs] before them), pgx keeps prepared
// statements, and nobody traces it: a round trip less than the bare transaction has.
//
// A batch (once.DoBatch) is one round trip altogether, and not one of its statements may
// end a transaction: insert, update, delete, merge and select are accepted. Up to 256 texts
// stay prepared on each connection. A duplicate fails as a whole and is then looked up,
// which tracers of pgx see as an error.
//
// A handler that changes search_path or role for its transaction changes them for the
// record's insert, too.
//
// Behind PgBouncer in transaction mode use default_query_exec_mode=exec, or
// PgBouncer 1.21 with max_prepared_statements.
package pgxstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// Store is a [store.Store] on a pgx pool.
type Store struct {
	pool   *pgxpool.Pool
	light  bool // see send
	simple bool // texts of several statements are possible
}

var (
	_ store.Store[pgx.Tx]  = (*Store)(nil)
	_ store.Joiner[pgx.Tx] = (*Store)(nil)
	_ store.Classifier     = (*Store)(nil)
)

// New returns a store on pool. Its table must exist: see [Migrate].
func New(pool *pgxpool.Pool) *Store {
	cfg := pool.Config().ConnConfig
	return &Store{pool, light(cfg), cfg.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol}
}

// Read returns the record of id.
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := scan(s.pool.QueryRow(ctx, pgsql.Read, id.Scope, id.Key))
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Record{}, nil
	}
	if err != nil {
		return store.Record{}, down(err)
	}
	return rec.live(), nil
}

// row is a record and whether its retention is over.
type row struct {
	store.Record
	expired bool
}

// live returns the record as the seam knows it: an expired one is absent, and keeps its claim.
func (r row) live() store.Record {
	switch {
	case r.State == store.Absent:
		return store.Record{}
	case r.expired:
		return store.Record{Claim: r.Claim}
	}
	return r.Record
}

// scan reads the columns of pgsql.Read.
func scan(from pgx.Row) (r row, err error) {
	var head []byte
	err = from.Scan(&r.State, &r.Fence, &r.Claim, &r.Fingerprint, &r.Result.Status, &r.Result.Kind, &head,
		&r.Result.Body, &r.Request, &r.Point, &r.Calling, &r.Data, &r.Lapsed, &r.Since, &r.expired)
	if err != nil {
		return r, err
	}
	r.Lapsed = r.Lapsed && r.State == store.Running
	r.Result.Header, err = store.DecodeHeader(head)
	return r, err
}

// millis is d for the database: NULL if there is no such bound.
func millis(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return float64(d) / float64(time.Millisecond)
}
