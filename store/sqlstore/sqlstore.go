// Package sqlstore keeps operations in the user's database through database/sql: SQLite, PostgreSQL, MySQL and
// MariaDB. The package imports no driver. The package is tested with modernc.org/sqlite, pgx's stdlib and
// github.com/go-sql-driver/mysql.
//
//	db, err := sqlstore.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
//	...
//	err = sqlstore.Migrate(ctx, db)
//	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
//	...
//	engine := once.New(s, once.Config{})
//
// [Open] is [sql.Open] with a guard, which sees every statement between database/sql and the driver. After a
// statement of an operation has failed, the guard refuses further statements and the commit of the operation.
// So a handler that ignores an error of the database never leaves a key without its effect, or an effect
// without its key. (The guard cannot see errors that database/sql returns without calling the driver, for
// example because a context was over before the statement.) Handlers get an ordinary [*sql.Tx]. The guard does
// not change other uses of the *sql.DB.
//
// On SQLite each operation is one BEGIN IMMEDIATE transaction. The writers of one file run one after the other,
// and a duplicate in another process waits for the file like any other writer. The writers of one Store wait in
// a queue, and hold no connection while they wait; busy_timeout or Timeouts.Lock limits the time in the queue.
// So use only one Store for each database file. With many concurrent callers, [Config].GroupCommit gives a
// higher throughput.
//
// On PostgreSQL, package pgxstore needs fewer round trips than sqlstore. If the data source name of PostgreSQL has several hosts, set
// target_session_attrs=read-write, because a standby answers replays and executes nothing new. If a server speaks PostgreSQL's protocol
// but does not keep advisory locks, sqlstore uses the server in the same way as pgxstore does: [New] detects such a server, and logs one
// time that the server does not keep advisory locks.
//
// SQLite has no server that could end a handler which hangs, so the Store ends the transaction of a handler
// which hangs. If the handler runs no statement for Timeouts.Idle, the Store rolls the transaction back, and
// gives the connection and the file to the next operation. If the Store has rolled the transaction back, the
// next statement of the handler fails with [sql.ErrTxDone], and the operation fails with [store.KindBusy].
// Timeouts.Statement interrupts a statement in the same way as the end of the statement's context does. Some
// drivers cannot interrupt a statement while the statement computes its next row. Timeouts.Idle and
// Timeouts.Statement have no effect while the process is stopped, nor while the handler uses a
// [sql.RawBytes].
//
// # MySQL and MariaDB
//
// [Open] makes connections that send several statements in a packet, with their arguments (multiStatements,
// interpolateParams), unless the data source name sets the two options itself. For [OpenDB], the connector must
// have the options multiStatements and interpolateParams. With multiStatements and interpolateParams, an
// operation needs as many round trips as the same transaction without this library, a first attempt needs one
// round trip less than the transaction without this library, and a batch needs one round trip in total. Without
// the options multiStatements and interpolateParams an operation needs three more round trips. A replay needs
// one round trip.
//
// Each SQL text that your program passes to the driver must be one statement. A text that may contain several
// statements is prepared first, which costs a round trip, and the server refuses to prepare several
// statements. Only outside of handlers, and only if your data source name has multiStatements=true, a text
// that may contain several statements is sent without being prepared. A statement with arguments is also
// prepared if its text has a backslash, or if its connection has a charset other than utf8mb4 and the
// single-byte charsets (for example charset=gbk). To know the charset, a *sql.DB of [Open] asks the server
// one time for each new connection.
//
// Sessions must be in autocommit mode, and their isolation level must not be READ UNCOMMITTED; [New] checks
// autocommit and the isolation level. No session waits for a claim, so that claims never deadlock, and a
// replay locks nothing. All tables must use InnoDB, also the tables of your program: the database cannot roll
// back a write to a table of another storage engine. If the store detects after a rollback that a table of
// another storage engine was written, the operation is in doubt, and is recorded as unknown. The command
// "once doctor" lists the tables that do not use InnoDB.
//
// On MySQL and MariaDB, a claim is a lock of the session (GET_LOCK). The store requests the lock in the same
// round trip as the look-up, and releases the lock after COMMIT. A proxy must keep a session on one
// connection. If a proxy moves a session to another connection, duplicates run at the same time, and because
// of the primary key only one of these duplicates commits. On MariaDB, a process that uses an earlier release
// of this library claims an operation by inserting its record. Processes of an earlier release may run at the
// same time as processes of this release; on MariaDB a duplicate then waits for the lock of a row, for
// Timeouts.Lock at most.
//
// If a handler changes its session (SET, USE, GET_LOCK, a temporary table, EXECUTE), the store closes the
// connection afterwards, so that no other operation gets the session. After SET STATEMENT, and after the use
// of user variables, the store does not close the connection, but returns the connection to the pool.
//
// The package is tested with MariaDB 10.11 and MySQL 9.7.
//
// If a context ends during a statement, the statement continues in the server, and its operation stays in
// flight until the statement ends: [store.Timeouts] or max_statement_time limit the time of the statement.
// The fields Lock and Idle of store.Timeouts are rounded up to seconds. MySQL applies Timeouts.Statement only
// to statements that read. MySQL ends an idle transaction by closing its connection (wait_timeout).
//
// A value takes twice its size in the packet to the server: max_allowed_packet and the driver's
// maxAllowedPacket must be large enough. If a result is too large for max_allowed_packet or maxAllowedPacket,
// the operation fails with an error, and nothing is applied. [store.Statement].Rows counts rows that have
// changed, unless the data source name has clientFoundRows=true.
//
// A replica lags behind its primary, so that a missing record on a replica proves nothing. On a server that has
// read_only set, the store executes no operation, even if the database user may write on a read_only server.
// After a lost answer to COMMIT, neither a read_only server nor a server that replicates from another server
// can show whether the COMMIT was applied: the operation stays in doubt until the primary can be asked. Set
// read_only on replicas: if a replica is writable and a pool of two hosts may reach it, an operation may be
// executed again on the replica.
//
// With once.Config.Synced, the store refuses to replay from a read_only server or from a replica. Synced has
// no other effect on MySQL and MariaDB, because no statement except COMMIT waits for a replica. With
// semi-synchronous replication and rpl_semi_sync_master_wait_point = AFTER_SYNC (MySQL:
// rpl_semi_sync_source_wait_point), no reader sees a commit that a replica has not received, so that a
// replayed result survives a failover to the replica. If the wait point is AFTER_COMMIT, the default of
// MariaDB, a failover may lose a result that was replayed. After rpl_semi_sync_master_timeout replication
// becomes asynchronous.
package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/sql/sqlitegroup"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Store is a [store.Store] on database/sql.
type Store struct {
	db        *sql.DB
	dialect   database
	connector driver.Connector  // of db
	file      *sqlitegroup.File // SQLite: the writers of the file wait in its queue; nil for servers
	watched   atomic.Bool       // PostgreSQL: SERIALIZABLE is the default level of the database
	byCommit  bool              // PostgreSQL: the server keeps no advisory locks
	server    string            // the name of that server
	logged    sync.Once         // the first operation logs the server, so that an operator's command that only reads does not log it

	compound     bool         // MySQL: the server is a MariaDB, which has compound statements
	several      bool         // MySQL: connections take several statements in a packet
	schema       string       // MySQL: the name of the database
	serializable bool         // MySQL: the default level of the sessions is SERIALIZABLE
	joins        atomic.Int64 // MySQL: the number of joins so far
	packet       atomic.Int64 // MySQL: max_allowed_packet; 0: not known
}

var (
	_ store.Store[*sql.Tx]  = (*Store)(nil)
	_ store.Joiner[*sql.Tx] = (*Store)(nil)
	_ store.Classifier      = (*Store)(nil)
)

// Open is like [sql.Open]. The connections of the returned sql.DB also have the guard that [New] requires:
// the guard sees each statement, and so finds a handler that ends the transaction of its operation. The
// name of the driver determines the dialect: sqlite, sqlite3, pgx, pgx/v5, postgres or mysql. For other
// drivers use [OpenDB].
func Open(driverName, dataSourceName string) (*sql.DB, error) {
	d, ok := drivers[driverName]
	if !ok {
		return nil, fmt.Errorf("sqlstore: the dialect of driver %q is not known. Try: sqlstore.OpenDB, which takes the dialect as an argument", driverName)
	}
	if d == sqlplane.MySQL {
		if name, asks := severalInPacket(dataSourceName); asks {
			if c, err := connectorOf(driverName, name); err == nil { // after an error, for example of a charset that excludes interpolation, the name is used without the options
				return sql.OpenDB(sqlguard.WrapAlone(c, guards[d])), nil
			}
		}
	}
	c, err := connectorOf(driverName, dataSourceName)
	if err != nil {
		return nil, err
	}
	return OpenDB(d, c), nil
}

func connectorOf(driverName, dataSourceName string) (driver.Connector, error) {
	plain, err := sql.Open(driverName, dataSourceName)
	if err != nil {
		return nil, err
	}
	_ = plain.Close() // no connection was opened yet
	if dc, ok := plain.Driver().(driver.DriverContext); ok {
		return dc.OpenConnector(dataSourceName)
	}
	return dsnConnector{dataSourceName, plain.Driver()}, nil
}

// severalInPacket returns a data source name of MySQL that allows several statements with arguments in a packet. It
// changes nothing if the name already says whether this is allowed.
func severalInPacket(name string) (asking string, asks bool) {
	_, parameters, some := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], "?")
	if strings.Contains(parameters, "multiStatements=") {
		return name, false
	}
	name += map[bool]string{false: "?", true: "&"}[some] + "multiStatements=true"
	if !strings.Contains(parameters, "interpolateParams=") {
		name += "&interpolateParams=true"
	}
	return name, true
}

// OpenDB is like [sql.OpenDB], with the guard that [New] requires: see [Open].
func OpenDB(d sqlplane.Dialect, c driver.Connector) *sql.DB {
	return sql.OpenDB(sqlguard.Wrap(c, guards[d]))
}

// dsnConnector is the connector of a driver that has none, as in database/sql.
type dsnConnector struct {
	dsn    string
	driver driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

// New returns a store on db. The parameter db must be a result of [Open] or [OpenDB], and its database must have the store's table: see
// [Migrate]. If the table does not exist, the error is [store.ErrNotMigrated].
func New(ctx context.Context, db *sql.DB, cfg Config) (*Store, error) {
	d, connector, err := dialectOf(ctx, db)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, dialect: d, connector: connector}
	switch d.name {
	case sqlplane.MySQL:
		if err := s.checkMySQL(ctx); err != nil {
			return nil, fmt.Errorf("sqlstore: %w", err)
		}
	case sqlplane.PostgreSQL:
		if err := s.probeClaims(ctx); err != nil {
			return nil, fmt.Errorf("sqlstore: %w", err)
		}
	case sqlplane.SQLite:
		var milliseconds int64
		if err := db.QueryRowContext(ctx, "pragma busy_timeout").Scan(&milliseconds); err != nil {
			return nil, fmt.Errorf("sqlstore: %w", err)
		}
		if milliseconds == 0 {
			// A writer that meets another one would fail at once.
			return nil, errBusyTimeout
		}
		s.file = sqlitegroup.New(db, time.Duration(milliseconds)*time.Millisecond)
	}
	if cfg.GroupCommit {
		if err := s.useGroups(ctx); err != nil {
			return nil, fmt.Errorf("sqlstore: GroupCommit: %w", err)
		}
	}
	if err := s.Check(ctx); errors.Is(err, store.ErrNotMigrated) && !cfg.NoOperations {
		return nil, fmt.Errorf("sqlstore: New: %w", err)
	}
	return s, nil
}

// probeClaims finds out whether a PostgreSQL server keeps claims. If it does not, operations are claimed by their commits.
func (s *Store) probeClaims(ctx context.Context) error {
	var listed bool
	var server string
	if err := s.db.QueryRowContext(ctx, pgsql.ListedLock(pgsql.ProbeKey())).Scan(&listed, &server); err != nil || listed {
		return err
	}
	apart := sql.OpenDB(s.connector) // db may have no second connection
	defer apart.Close()
	excludes, err := pgsql.ExcludesLock(ctx, apart)
	s.byCommit, s.server = err == nil && !excludes, server
	return err
}

var errUnguarded = errors.New("the *sql.DB was not opened with sqlstore.Open: if a handler ignored the error of a statement, half of its operation could be committed. Try: sqlstore.Open instead of sql.Open")

// dialectOf returns the dialect of db, and the connector of its connections.
func dialectOf(ctx context.Context, db *sql.DB) (database, driver.Connector, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return database{}, nil, fmt.Errorf("sqlstore: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var guarded sqlguard.Dialect
	var connector driver.Connector
	err = conn.Raw(func(dc any) error {
		var ok bool
		if guarded, ok = sqlguard.DialectOf(dc); !ok {
			return errUnguarded
		}
		connector = sqlguard.ConnectorOf(dc)
		return nil
	})
	if err != nil {
		return database{}, nil, fmt.Errorf("sqlstore: %w", err)
	}
	for _, d := range dialects {
		if guards[d.name] == guarded {
			return d, connector, nil
		}
	}
	return database{}, nil, fmt.Errorf("sqlstore: the package does not support the database %v", guarded)
}

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) error {
	_, err := s.Read(ctx, store.ID{})
	return err
}

// Read returns the record of id. On a standby of PostgreSQL, Read returns an error if the operation is not done.
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	var on rowQuerier = s.db
	if w := waits.Of(ctx); w != nil {
		conn, err := s.acquire(ctx, store.BeginOptions{Waits: w})
		if err != nil {
			return store.Record{}, s.down(err)
		}
		defer func() { _ = conn.Close() }()
		on = conn
	}
	switch s.dialect.name {
	case sqlplane.PostgreSQL:
		r, err := lookPostgres(ctx, on, store.BeginOptions{ID: id})
		if err != nil {
			return store.Record{}, s.down(err)
		}
		return r.live(), nil
	case sqlplane.MySQL:
		r, err := lookUp(ctx, on, s.lookMySQL(store.BeginOptions{ID: id}))
		if err != nil {
			return store.Record{}, s.down(err)
		}
		return r.live(), nil
	}
	return s.readSQLite(ctx, on, id)
}

func (s *Store) readSQLite(ctx context.Context, from rowQuerier, id store.ID) (store.Record, error) {
	r, err := scan(from.QueryRowContext(s.ownContext(ctx), s.dialect.read, id.Scope, id.Key))
	if errors.Is(err, sql.ErrNoRows) {
		return store.Record{}, nil
	}
	if err != nil {
		return store.Record{}, s.down(err)
	}
	return r.live(), nil
}
