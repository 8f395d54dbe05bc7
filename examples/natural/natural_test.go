package natural

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const clients = 16

// testDB is a new database with the tables of this package.
type testDB struct {
	*sql.DB

	dialect sqlplane.Dialect
	dsn     string
}

var tables = map[string]string{
	"price":    "sku varchar(50) primary key, amount bigint not null, version bigint not null",
	"token":    "hash char(64) primary key, used_by varchar(50)",
	"position": "source varchar(100) primary key, seq bigint not null",
	"effect":   "id varchar(100) primary key, client bigint not null",
}

func openTestDB(t *testing.T, driver string, d sqlplane.Dialect, dsn string) testDB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	must(t, err)
	db.SetMaxOpenConns(clients)
	db.SetMaxIdleConns(clients)
	g := testDB{DB: db, dialect: d, dsn: dsn}
	for name, columns := range tables {
		if d == sqlplane.MySQL {
			columns = strings.ReplaceAll(columns, "varchar", "varbinary") // see docs/natural.md
		}
		g.exec(t, "create table "+name+" ("+columns+")")
	}
	return g
}

// server is where package testenv makes a database.
type server interface{ CreateDatabase(name string) error }

var (
	opening sync.Mutex
	opened  = map[string]testDB{} // by the name of the subtest; they end with their servers
)

// shared is a database that all tests use, one after another. It is empty.
func shared(t *testing.T, kind, database string, s server, open func(database string) testDB) testDB {
	t.Helper()
	opening.Lock()
	defer opening.Unlock()
	g, ok := opened[kind]
	if !ok {
		must(t, s.CreateDatabase(database))
		g = open(database)
		opened[kind] = g
	}
	for name := range tables {
		g.exec(t, "delete from "+name)
	}
	return g
}

func newPostgres(t *testing.T) testDB {
	t.Helper()
	s := testenv.SharedPostgres(t)
	return shared(t, "PostgreSQL", "natural", s, func(database string) testDB {
		return openTestDB(t, "pgx", sqlplane.PostgreSQL, s.URL(database))
	})
}

const foundRows = "?clientFoundRows=true"

func newMySQL(t *testing.T, kind string, s *testenv.MariaDB, parameters string) testDB {
	t.Helper()
	database := map[string]string{"": "natural", foundRows: "natural_found"}[parameters]
	return shared(t, kind+parameters, database, s, func(database string) testDB {
		return openTestDB(t, "mysql", sqlplane.MySQL, s.DSN(database)+parameters)
	})
}

// on runs a test on each database.
func on(t *testing.T, test func(t *testing.T, g testDB)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, newPostgres(t))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		g := openTestDB(t, "sqlite", sqlplane.SQLite, "file:"+filepath.Join(t.TempDir(), "test.db")+
			"?_txlock=immediate&_pragma=busy_timeout(600000)&_pragma=journal_mode(WAL)")
		defer g.Close()
		test(t, g)
	})
	onMySQL(t, "", test)
	onMySQL(t, foundRows, test)
}

func onMySQL(t *testing.T, parameters string, test func(t *testing.T, g testDB)) {
	t.Helper()
	t.Run("MariaDB"+parameters, func(t *testing.T) {
		t.Parallel()
		test(t, newMySQL(t, "MariaDB", testenv.SharedMariaDB(t), parameters))
	})
	t.Run("MySQL"+parameters, func(t *testing.T) {
		t.Parallel()
		test(t, newMySQL(t, "MySQL", testenv.SharedMySQL(t), parameters))
	})
}

func (g testDB) exec(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	result, err := g.ExecContext(context.Background(), g.text(query), args...)
	must(t, err)
	n, err := result.RowsAffected()
	must(t, err)
	return n
}

func (g testDB) number(t *testing.T, query string, args ...any) (n int64) {
	t.Helper()
	must(t, g.QueryRowContext(context.Background(), g.text(query), args...).Scan(&n))
	return n
}

// text is a query in the dialect of the database. Its arguments are used in order.
func (g testDB) text(query string) string {
	if g.dialect == sqlplane.MySQL {
		return strings.NewReplacer("$1", "?", "$2", "?", "$3", "?").Replace(query)
	}
	return query
}

// effect is a row that can be written only once.
func (g testDB) effect(id string, client int64) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.Background(), g.text("insert into effect (id, client) values ($1, $2)"), id, client)
		return err
	}
}

// atOnce runs do in as many goroutines as there are clients.
func atOnce(do func(client int64)) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for client := range int64(clients) {
		all.Go(func() {
			<-start
			do(client)
		})
	}
	close(start)
	all.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
