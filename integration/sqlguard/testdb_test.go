package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// testDB is a database with three tables: once_key and effect, which a
// transaction fills together or not at all, and taken, where 1 and 2 are taken.
type testDB struct {
	dialect   sqlguard.Dialect
	connector driver.Connector
	bare      *sql.DB
	guarded   *sql.DB
}

func newTestDB(t testing.TB, d sqlguard.Dialect, c driver.Connector) *testDB {
	t.Helper()
	g := &testDB{dialect: d, connector: c, bare: sql.OpenDB(c), guarded: sql.OpenDB(sqlguard.Wrap(c, d))}
	t.Cleanup(func() {
		g.guarded.Close()
		g.bare.Close()
	})
	g.run(t, "CREATE TABLE once_key (id int PRIMARY KEY)", "CREATE TABLE effect (id int)",
		"CREATE TABLE taken (id int PRIMARY KEY)", "INSERT INTO taken VALUES (1), (2)")
	return g
}

func postgres(t testing.TB) *testDB {
	t.Helper()
	return newTestDB(t, sqlguard.PostgreSQL, connector(t, testenv.NewDatabase(t), nil))
}

// innodb is a kind of server whose tables are InnoDB's.
type innodb struct {
	mysql   bool
	server  func(testing.TB) *testenv.MariaDB // that the tests of this package share
	created func(testing.TB) string           // a new database on it

	commit     string // how the packet that commits ends, or begins
	within20ms string // a statement that would take longer than it may
}

var (
	onMariaDB = innodb{false, testenv.SharedMariaDB, testenv.NewMariaDB, "\x03COMMIT", "SET STATEMENT max_statement_time = 0.02 FOR SELECT SLEEP(2)"}
	onMySQL   = innodb{true, testenv.SharedMySQL, testenv.NewMySQL, "\x03COMMIT",
		"SELECT /*+ MAX_EXECUTION_TIME(20) */ count(*) FROM " + sequence(1000) + ", " + sequence(999) + "2, " + sequence(998) + "3"} // SLEEP ends without an error
)

// onInnoDB plays a test on each kind of server.
func onInnoDB(t *testing.T, play func(t *testing.T, on innodb)) {
	t.Helper()
	for name, on := range map[string]innodb{harness.MariaDB: onMariaDB, harness.MySQL: onMySQL} {
		t.Run(name, func(t *testing.T) {
			harness.Cell(t, !on.mysql)
			t.Parallel()
			play(t, on)
		})
	}
}

// open takes several statements in one text.
func (on innodb) open(t testing.TB) *testDB {
	t.Helper()
	return newTestDB(t, sqlguard.MySQL, mysqlConnector(t, on.created(t), nil))
}

// sequence is a table of the numbers from 1 to n, in its column seq.
func sequence(n int) string {
	return fmt.Sprintf("(WITH RECURSIVE c(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM c WHERE seq < %d) SELECT seq FROM c) AS seqs", n)
}

// mysqlConnector connects through a proxy if there is one.
func mysqlConnector(t testing.TB, dsn string, proxy *faultnet.Proxy) driver.Connector {
	t.Helper()
	config, err := mysql.ParseDSN(dsn + "?multiStatements=true&interpolateParams=true")
	must(t, err)
	config.Logger = &mysql.NopLogger{}
	if proxy != nil {
		config.DialFunc = proxy.DialContext
	}
	c, err := mysql.NewConnector(config)
	must(t, err)
	return c
}

// connector connects through a proxy if there is one.
func connector(t testing.TB, url string, proxy *faultnet.Proxy) driver.Connector {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	must(t, err)
	if proxy != nil {
		config.DialFunc = proxy.DialContext
	}
	return stdlib.GetConnector(*config)
}

// lite opens a new file in WAL mode.
func lite(t testing.TB, options string) *testDB {
	t.Helper()
	return liteAt(t, t.TempDir(), "wal", options)
}

// liteAt opens a file whose transactions are deferred unless the URL says
// otherwise.
func liteAt(t testing.TB, dir, journal, options string) *testDB {
	t.Helper()
	if !strings.Contains(options, "busy_timeout") {
		options += "&_pragma=busy_timeout(5000)"
	}
	c, err := sqlite.NewConnector("file:" + filepath.Join(dir, "once.db") +
		"?_pragma=journal_mode(" + journal + ")&_pragma=foreign_keys(1)&_txlock=deferred" + options)
	must(t, err)
	return newTestDB(t, sqlguard.SQLite, c)
}

// both plays a test on every database.
func both(t *testing.T, play func(t *testing.T, g *testDB)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) { testenv.Cell(t, testenv.InTest); t.Parallel(); play(t, postgres(t)) })
	t.Run("SQLite", func(t *testing.T) { testenv.Cell(t, testenv.InTest); t.Parallel(); play(t, lite(t, "")) })
	onInnoDB(t, func(t *testing.T, on innodb) { t.Helper(); play(t, on.open(t)) })
}

func (g *testDB) run(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := g.bare.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (g *testDB) count(t testing.TB, table string) (n int) {
	t.Helper()
	must(t, g.bare.QueryRowContext(context.Background(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// leaves demands that this many keys and effects are there, and that the guarded
// pool can be used.
func (g *testDB) leaves(t testing.TB, keys, effects int) {
	t.Helper()
	if k, e := g.count(t, "once_key"), g.count(t, "effect"); k != keys || e != effects {
		t.Errorf("%d keys and %d effects are left, want %d and %d", k, e, keys, effects)
	}
	g.works(t)
}

// works demands that both pools can write.
func (g *testDB) works(t testing.TB) {
	t.Helper()
	g.run(t, "DELETE FROM once_key", "DELETE FROM effect")
	tx, _ := g.begin(t)
	insert(t, tx, "once_key")
	must(t, tx.Commit())
	if n := g.count(t, "once_key"); n != 1 {
		t.Errorf("the pool wrote %d keys", n)
	}
	g.run(t, "DELETE FROM once_key")
}

func (g *testDB) begin(t testing.TB) (*sql.Tx, *sqlguard.Txn) {
	t.Helper()
	txn := new(sqlguard.Txn)
	tx, err := g.guarded.BeginTx(txn.Context(context.Background()), nil)
	must(t, err)
	return tx, txn
}

func insert(t testing.TB, tx *sql.Tx, table string) {
	t.Helper()
	_, err := tx.ExecContext(context.Background(), "INSERT INTO "+table+" VALUES (1)")
	must(t, err)
}

// raw runs a statement on the driver's own connection, below the guard.
func raw(t testing.TB, c *sql.Conn, statement string) {
	t.Helper()
	must(t, c.Raw(func(driverConn any) error {
		_, err := sqlguard.Unwrap(driverConn).(driver.ExecerContext).ExecContext(context.Background(), statement, nil)
		return err
	}))
}

func must(t testing.TB, err error) { t.Helper(); harness.Must(t, err) }
