// Package sqlstore keeps operations in the user's database through database/sql:
// SQLite, PostgreSQL, MySQL and MariaDB. It imports no driver; it is tested with
// modernc.org/sqlite, pgx's stdlib and github.com/go-sql-driver/mysql.
//
//	db, err := sqlstore.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
//	...
//	err = sqlstore.Migrate(ctx, db)
//	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
//	...
//	engine := once.New(s, once.Config{})
//
// [Open] is [sql.Open] with a guard below it: inside of an operation, a
// transaction that has seen a statement error can neither go on nor commit, so
// that a handler which drops an error of the database never leaves a key without
// its effect or an effect without its key. (The guard cannot see errors that database/sql raises without
// asking the driver, as for a context that was over before the statement.)
// Handlers get an ordinary [*sql.Tx]; other uses of the
// *sql.DB are not touched.
//
// On SQLite an operation is one BEGIN IMMEDIATE transaction: writers of one file
// follow each other, and a duplicate in another process waits for the file as any
// writer does. The writers of one Store wait in a queue, and hold no connection while they wait;
// busy_timeout or Timeouts.Lock bounds that. So use one Store for a file. With many callers at
// a time, [Config].GroupCommit gives a higher throughput. On PostgreSQL,
// pgxstore does the same in fewer round trips. With several hosts in the data source name of
// PostgreSQL, say target_session_attrs=read-write: a standby refuses everything but replays. A
// server that speaks its protocol and keeps no advisory locks is used as by pgxstore: [New] finds it out, and the log says so once.
//
// SQLite has no server that could end a handler which hangs. The Store does it: after
// Timeouts.Idle without a statement it rolls back and gives connection and file to the next
// operation. The statements of the handler then fail with [sql.ErrTxDone], and its operation with
// [store.KindBusy]. Timeouts.Statement interrupts a statement as the end of its context would;
// a driver may be unable to interrupt the work between two rows at all. A process that is
// stopped can do neither, and no process can while the handler uses a [sql.RawBytes].
//
// # MySQL and MariaDB
//
// [Open] has connections take several statements in a packet, with arguments among them (multiStatements, interpolateParams), unless the data source name
// says whether they do; for [OpenDB] the connector must allow it. An operation then has as many round trips as a bare transaction, a first attempt one
// less, and a batch has one. Otherwise an operation has three more. A replay is one. Your own texts hold one statement each: a text that may hold several is prepared
// first, which costs a round trip, and the server refuses it. Only outside of handlers, and if your data source name says multiStatements=true, several are
// sent. A statement with arguments is prepared, too, if its text has a backslash, or if its connection has a charset other than utf8mb4 and the charsets of one byte
// (charset=gbk). That [Open] may know this, each new connection is asked for its charset once.
//
// Sessions must be in
// autocommit mode and not read uncommitted, which [New] checks. No session waits for a
// claim, so that claims never deadlock, and a replay locks nothing. Tables must be
// InnoDB's, yours as well: writes to others are not rolled back. If that happens and is found out,
// the operation is in doubt, and recorded as unknown; once doctor names such tables.
//
// A claim is a lock of the session (GET_LOCK), which is asked for together with the look-up and is released after COMMIT. A proxy must keep a session on
// one connection: if it does not, duplicates run at the same time, and the primary key lets one commit. Nodes of an earlier release, which claim on
// MariaDB by inserting the record, may run together with nodes of this one; a duplicate waits there for the lock of a row, as Timeouts.Lock bounds it.
//
// A handler that changes its session (SET, USE, GET_LOCK, a temporary table, EXECUTE) costs
// the connection: it is closed, so that no other operation gets the session. SET STATEMENT and
// variables of the user are free.
//
// It is tested with MariaDB 10.11 and MySQL 9.7.
//
// A statement that its context cuts short runs on in the server, and its operation is in
// flight as long: [store.Timeouts] or max_statement_time bound that. Timeouts for locks and
// idle transactions are rounded up to seconds. MySQL bounds only statements that read. It ends a
// transaction that lies idle together with its connection (wait_timeout).
//
// A value takes twice its size on its way to the server: max_allowed_packet, and the driver's
// maxAllowedPacket, must have room for that. A result for which they have not fails with
// an error, and nothing is applied. [store.Statement].Rows counts rows that have changed, unless the data
// source name says clientFoundRows=true.
//
// A replica lags behind, so that a missing record proves nothing there. On a server that is set to
// read_only nothing is executed, also for users who may write there, and a lost COMMIT is
// settled neither there nor on a server that replicates from another one: it stays in doubt
// until the primary can be asked. Set read_only on replicas: on a writable one that
// a pool of two hosts may reach, an operation runs again.
//
// once.Config.Synced refuses replays from such servers. It adds nothing else here: no
// statement but COMMIT waits for a replica.
// With semi-synchronous replication and rpl_semi_sync_master_wait_point = AFTER_SYNC
// (MySQL: rpl_semi_sync_source_wait_point) no reader sees a commit that a replica has not
// received, so that a replayed result survives a failover to it; with AFTER_COMMIT, MariaDB's
// default, it may not. After rpl_semi_sync_master_timeout replication is asynchronous.
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
	file      *sqlitegroup.File // SQLite: its writers take turns; nil for servers
	watched   atomic.Bool       // PostgreSQL: SERIALIZABLE is the default level of the database
	byCommit  bool              // PostgreSQL: the server keeps no advisory locks
	server    string            // the name of that server
	logged    sync.Once         // that the server is logged: by the first operation, and not for an operator's command that only looks

	compound     bool         // MySQL: the server is a MariaDB, which has compound statements
	several      bool         // MySQL: connections take several statements in a packet
	schema       string       // MySQL: the name of the database
	serializable bool         // MySQL: sessions are SERIALIZABLE if nothing else is asked for
	joins        atomic.Int64 // MySQL: the number of joins so far
	packet       atomic.Int64 // MySQL: max_allowed_packet; 0: to be asked for
}

var (
	_ store.Store[*sql.Tx]  = (*Store)(nil)
	_ store.Joiner[*sql.Tx] = (*Store)(nil)
	_ store.Classifier      = (*Store)(nil)
)

// Open is [sql.Open] with the guard that [New] asks for. The dialect follows from
// the driver's name: sqlite, sqlite3, pgx, pgx/v5, postgres or mysql. For others see [OpenDB].
func Open(driverName, dataSourceName string) (*sql.DB, error) {
	d, ok := drivers[driverName]
	if !ok {
		return nil, fmt.Errorf("sqlstore: the dialect of driver %q is not known. Try: sqlstore.OpenDB, which takes the dialect as an argument", driverName)
	}
	if d == sqlplane.MySQL {
		if name, asks := severalInPacket(dataSourceName); asks {
			if c, err := connectorOf(driverName, name); err == nil { // a charset may be one in which the driver cannot interpolate
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
	_ = plain.Close() // it has opened nothing yet
	if dc, ok := plain.Driver().(driver.DriverContext); ok {
		return dc.OpenConnector(dataSourceName)
	}
	return dsnConnector{dataSourceName, plain.Driver()}, nil
}

// severalInPacket is a data source name of MySQL that allows several statements in a packet, with arguments among them, unless it says
// whether it does.
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

// OpenDB is [sql.OpenDB] with the guard that [New] asks for.
func OpenDB(d sqlplane.Dialect, c driver.Connector) *sql.DB {
	return sql.OpenDB(sqlguard.Wrap(c, guards[d]))
}

// dsnConnector does the same as database/sql for drivers without connectors.
type dsnConnector struct {
	dsn    string
	driver driver.Driver
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

// New returns a store on db, which must come from [Open] or [OpenDB] and have the
// store's table: see [Migrate]. Without the table the error is [store.ErrNotMigrated].
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

// probeClaims finds out whether a PostgreSQL keeps claims. If not, operations are claimed by their commits.
func (s *Store) probeClaims(ctx context.Context) error {
	var listed bool
	var server string
	if err := s.db.QueryRowContext(ctx, pgsql.ListedLock(pgsql.ProbeKey())).Scan(&listed, &server); err != nil || listed {
		return err
	}
	apart := sql.OpenDB(s.connector) // db may have no second connection to give
	defer apart.Close()
	excludes, err := pgsql.ExcludesLock(ctx, apart)
	s.byCommit, s.server = err == nil && !excludes, server
	return err
}

var errUnguarded = errors.New("this *sql.DB is not guarded: a swallowed statement error could commit half an operation. Try: sqlstore.Open in place of sql.Open")

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
	return database{}, nil, fmt.Errorf("sqlstore: no store for %v yet", guarded)
}

// Check implements [store.Checker].
func (s *Store) Check(ctx context.Context) error {
	_, err := s.Read(ctx, store.ID{})
	return err
}

// Read returns the record of id. On a standby of PostgreSQL, a record that is not Done is an error.
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
