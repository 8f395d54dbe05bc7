// Package pgxstore keeps operations in PostgreSQL, through pgx: key, business
// write and result commit together, with no round trip and no commit more than
// the bare transaction.
//
//	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
//	...
//	err = pgxstore.Migrate(ctx, pool)
//	...
//	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
//
// BEGIN, the claim and the look-up travel in one pipelined round trip; the record
// and COMMIT in another. The handler gets an ordinary [pgx.Tx]. A first attempt
// (once.Attempt.Number is 1; over HTTP, Once-Attempt: 1) needs no look-up: BEGIN and the claim
// travel with the handler's first statement, if that is an Exec or Query with arguments
// (and neither a [pgx.QueryExecMode] nor [pgx.NamedArgs] before them), and pgx keeps prepared
// statements: a round trip less than the bare transaction has.
//
// A tracer of pgx sees statements that the store sends together, as BEGIN and the claim, as a batch
// ([pgx.BatchTracer]). It sees each statement of the handler as a query, also the one that
// travels with BEGIN and the claim: that query begins when all of it is sent. It is prepared before,
// once for each connection ([pgx.PrepareTracer]). A first attempt whose claim is
// refused is an error in both.
//
// A batch (once.DoBatch) is one round trip altogether, and not one of its statements may
// end a transaction: insert, update, delete, merge and select are accepted. Up to 256 texts
// stay prepared on each connection. A duplicate fails as a whole and is then looked up,
// which tracers of pgx see as an error.
//
// With several hosts in the connection string, say target_session_attrs=read-write: a standby
// can give a replay of a record that it has, and everything else is refused there. pgx keeps
// to a standby that it has found until the store drops the connection.
// Claims are advisory locks. The first operation of a Store finds out whether the server keeps
// them. If it accepts them and does nothing, as CockroachDB did before 2026, operations are claimed by their commits: see
// [store.CommitClaimer]. The log says so once. Of duplicates on several nodes more than one may run its handler, one commits, and
// the others replay. Only PostgreSQL itself is tested, also with advisory locks that do nothing.
//
// A handler that changes search_path or role for its transaction changes them for the
// record's insert, too.
//
// Behind PgBouncer in transaction mode use default_query_exec_mode=exec, or
// PgBouncer 1.21 with max_prepared_statements. Otherwise operations fail there as soon as a
// statement is missing in a session or was prepared by another client; none runs in place of
// another.
package pgxstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Store is a [store.Store] on a pgx pool.
type Store struct {
	pool     *pgxpool.Pool
	prepares bool // see send
	simple   bool // texts of several statements are possible

	name string // of transactions, see Config.NameTransactions; "": the name of their connection

	watched  atomic.Bool // SERIALIZABLE is the default level of the database: see serializable.go
	probed   atomic.Bool
	byCommit atomic.Bool // the server keeps no advisory locks: see probe.go

	probing    sync.Mutex
	probingNow *probing // nil: no probe is running
}

var (
	_ store.Store[pgx.Tx]  = (*Store)(nil)
	_ store.Joiner[pgx.Tx] = (*Store)(nil)
	_ store.Classifier     = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
	_ sqlplane.SQL[pgx.Tx] = (*Store)(nil)
	_ upkeep.Lister        = (*Store)(nil)
)

// Config of a [Store]. The zero value is ready to use.
type Config struct {
	// NameTransactions gives the transaction of each operation an application_name that ends with the hash of
	// its key, such as "payments 2c26b46b68ffc68f": the hash that [once.Log] writes as idempotency_key. For a statement of the handler that waits for a lock
	// or is slow, the log of the server (log_line_prefix with %a) and pg_stat_activity then show the operation
	// it belongs to. It is sent with BEGIN, so it takes no round trip. Without a key, and in
	// [once.Join], the transaction has the name of the connection.
	NameTransactions bool
}

// New returns a store on pool. Its table must exist: see [Migrate], and [Store.Check] if
// something else migrates. Without the table each operation fails with [store.ErrNotMigrated].
func New(pool *pgxpool.Pool, cfg Config) *Store {
	conn := pool.Config().ConnConfig
	s := &Store{pool: pool, prepares: mayPrepare(conn), simple: conn.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol}
	if cfg.NameTransactions {
		s.name = nameOf(conn)
	}
	return s
}

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) error {
	_, err := s.Read(ctx, store.ID{})
	return err
}

// Read returns the record of id. On a standby, a record that is not Done is an error.
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if err := s.unsendable(id); err != nil {
		return store.Record{}, err
	}
	r, err := s.look(ctx, id)
	if err != nil {
		return store.Record{}, down(err)
	}
	return r.live(), nil
}

// look is Read, but returns expired records, too.
func (s *Store) look(ctx context.Context, id store.ID) (row, error) {
	conn, err := s.pooled(ctx, waits.Of(ctx))
	if err != nil {
		return row{}, err
	}
	defer conn.Release()
	var recovery bool
	r, err := scan(behind{conn.QueryRow(ctx, pgsql.Look, id.Scope, id.Key), []any{&recovery}})
	if err == nil && recovery && r.live().State != store.StateDone {
		err = pgsql.ErrRecovery
	}
	return r, err
}

// row is a record and whether its retention is over.
type row struct {
	store.Record
	expired bool
}

// live returns the record as the seam knows it: an expired one is absent, and keeps its nonce.
func (r row) live() store.Record {
	switch {
	case r.State == store.StateAbsent:
		return store.Record{}
	case r.expired:
		return store.Record{Nonce: r.Nonce}
	}
	return r.Record
}

// scan reads the columns of a record.
func scan(from pgx.Row) (r row, err error) {
	var stored []byte
	err = from.Scan(&r.State, &r.Fence, &r.Nonce, &r.Fingerprint, &r.Result.Status, &r.Result.Kind, &stored,
		&r.Result.Body, &r.Request, &r.Trace, &r.Name, &r.RecoveryPoint, &r.CallStarted, &r.Data, &r.LeaseExpired, &r.Since, &r.expired)
	if err != nil {
		return r, err
	}
	r.LeaseExpired = r.LeaseExpired && r.State == store.StateRunning
	err = head.Decode(stored, &r.Result)
	return r, err
}

// millis is d for the database: NULL if there is no such bound.
func millis(d time.Duration) any {
	if d == 0 || d == store.Forever {
		return nil
	}
	return float64(d) / float64(time.Millisecond)
}
