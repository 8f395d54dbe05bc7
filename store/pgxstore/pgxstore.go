// Package pgxstore keeps operations in PostgreSQL, through pgx. The key of an operation, its business writes
// and its result are committed in one transaction. An operation needs no more round trips and no more commits
// than the same transaction without this library.
//
//	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
//	...
//	err = pgxstore.Migrate(ctx, pool)
//	...
//	engine := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
//
// The store sends BEGIN, the claim (the lock on the operation) and the look-up of the record in one
// pipelined round trip. The store sends the new record and COMMIT in another round trip. The handler gets
// an ordinary [pgx.Tx].
//
// If the client says that a request is a first attempt (once.Attempt.Number is 1; over HTTP, Once-Attempt:
// 1), the store does not look up the record. BEGIN and the claim of a first attempt are sent together with
// the handler's first statement, so that a first attempt needs one round trip less than the same
// transaction without this library. A first attempt saves the round trip only if pgx keeps prepared
// statements, and if the handler's first statement is an Exec or Query with arguments, without a
// [pgx.QueryExecMode] or [pgx.NamedArgs] before the arguments.
//
// A tracer of pgx sees statements that the store sends together, such as BEGIN and the claim, as a batch
// ([pgx.BatchTracer]). The tracer sees each statement of the handler as a query, also a statement that is sent
// together with BEGIN and the claim. The query of a statement that is sent together with BEGIN begins when the
// whole round trip is sent. A statement that is sent together with BEGIN is prepared in an earlier round trip,
// one time for each connection ([pgx.PrepareTracer]). If the claim of a first attempt is refused, the tracer
// sees an error of the batch and an error of the query.
//
// A batch (once.DoBatch) needs one round trip in total. No statement of a batch may end a transaction: only
// INSERT, UPDATE, DELETE, MERGE and SELECT are accepted. Up to 256 SQL texts stay prepared on each connection.
// If an operation is a duplicate, its whole batch fails, and then the store looks up the record; tracers of
// pgx see the failed batch as an error.
//
// If the connection string has several hosts, set target_session_attrs=read-write. On a standby, the store
// can only replay an operation whose record the standby has. All other calls fail on a standby, and pgx stays
// connected to a standby until the store drops the connection.
//
// Claims (the locks on operations) are advisory locks. The first operation of a Store finds out whether the
// server supports advisory locks. If the server accepts advisory locks without effect, as CockroachDB did
// before 2026, the store claims each operation by the commit of the operation (see [store.CommitClaimer]),
// and logs one time that it does so. If operations are claimed by their commits, several nodes may run the
// handlers of duplicates at the same time: one node commits, and the other nodes replay the result. Only
// PostgreSQL is tested; some tests replace the advisory locks of PostgreSQL by locks that do nothing.
//
// If a handler changes search_path or role for its transaction, the changed setting also applies to the
// statement that inserts the record of the operation.
//
// With PgBouncer in transaction mode use default_query_exec_mode=exec, or PgBouncer 1.21 or newer with
// max_prepared_statements. With other settings of PgBouncer, an operation fails if a prepared statement is
// missing in its session, or if another client has prepared a statement with the same name; the store never
// runs a wrong statement.
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
	prepares bool // connections may keep prepared statements: see send
	simple   bool // pgx uses the simple protocol, so one text may contain several statements

	name string // the prefix of the names of transactions, see Config.NameTransactions; "": transactions have no names

	watched atomic.Bool // SERIALIZABLE is the default level of the database: see serializable.go
	// probed is true after the server was probed: see probe.go.
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

// Config configures a [Store]. The zero value is ready to use.
type Config struct {
	// NameTransactions gives the transaction of each operation an application_name that ends with the hash of
	// its key, such as "payments 2c26b46b68ffc68f". [once.Log] writes the same hash as idempotency_key. If a
	// statement of the handler waits for a lock or is slow, pg_stat_activity and the log of the server
	// (log_line_prefix with %a) show the operation to which the statement belongs. The store sends the
	// application_name together with BEGIN, so the application_name costs no round trip. An operation without
	// a key, or an operation in [once.Join], keeps the application_name of the connection.
	NameTransactions bool
}

// New returns a store on pool. The store's table must exist: see [Migrate]. If another program creates
// the table, call [Store.Check]. Without the table each operation fails with [store.ErrNotMigrated].
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

// Read returns the record of id. On a standby, Read returns an error if the operation is not done.
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

// look does the same as Read, but also returns expired records.
func (s *Store) look(ctx context.Context, id store.ID) (row, error) {
	conn, err := s.pooled(ctx, waits.Of(ctx))
	if err != nil {
		return row{}, err
	}
	defer conn.Release()
	var recovery bool
	r, err := scan(behind{conn.QueryRow(ctx, pgsql.Look, id.Scope, id.Key), []any{&recovery}})
	// A standby may lag behind, so only a finished operation is certain.
	if err == nil && recovery && r.live().State != store.StateDone {
		err = pgsql.ErrRecovery
	}
	return r, err
}

// row is a record, and whether the retention of the record has ended.
type row struct {
	store.Record
	expired bool
}

// live returns the record as other packages see it: an expired record is absent, and keeps its nonce.
func (r row) live() store.Record {
	switch {
	case r.State == store.StateAbsent:
		return store.Record{}
	case r.expired:
		return store.Record{Nonce: r.Nonce}
	}
	return r.Record
}

// scan reads the columns of a record from a row.
func scan(from pgx.Row) (r row, err error) {
	var stored []byte
	err = from.Scan(&r.State, &r.Fence, &r.Nonce, &r.Fingerprint, &r.Result.Status, &r.Result.Kind, &stored,
		&r.Result.Body, &r.Request, &r.Trace, &r.Name, &r.RecoveryPoint, &r.CallStarted, &r.Data, &r.LeaseExpired, &r.Since, &r.expired)
	if err != nil {
		return r, err
	}
	// The lease of a finished operation has no meaning.
	r.LeaseExpired = r.LeaseExpired && r.State == store.StateRunning
	err = head.Decode(stored, &r.Result)
	return r, err
}

// millis returns d in milliseconds for the database, or NULL if d means no limit.
func millis(d time.Duration) any {
	if d == 0 || d == store.Forever {
		return nil
	}
	return float64(d) / float64(time.Millisecond)
}
