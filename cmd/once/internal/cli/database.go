package cli

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/spf13/pflag"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/oncelib/once/cmd/once/internal/mysqlurl"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// Database is the database that the command line names.
type Database struct {
	*sql.DB
	Source
}

// DBUsage describes the flag --db.
const DBUsage = "`URL` of the database: the path of an SQLite file, postgres://user@host/name or mysql://user@host/name (MySQL or MariaDB)"

// DBFlag adds the flag --db, which has defaults.
func DBFlag(fs *pflag.FlagSet, db *string) {
	fs.StringVar(db, "db", "", DBUsage+" (default: ONCE_DB, DATABASE_URL, or db of once.yaml)")
	FromEnv(fs, "db", "ONCE_DB", "DATABASE_URL")
}

// Source is how to open the database at a URL.
type Source struct {
	Dialect sqlplane.Dialect
	Driver  string
	DSN     string
	Path    string // of an SQLite file
	Name    string // without the password
	Paste   string // the database as a word for a shell, or URL if the word would contain the password
}

// Failed is an error of the database, with advice.
func (s Source) Failed(doing string, err error) error {
	try := "check that the server is running, that it has this database, and that this user may read the database"
	err = sqlguard.Said(err)
	switch {
	case sqlguard.IsMissing(err):
		try = "once migrate up --db " + s.Paste
	case s.Dialect == sqlplane.SQLite:
		try = "check that the folder exists, that the file is an SQLite file, and that you may read and write the file"
	case s.Dialect == sqlplane.MySQL:
		try = words.Either(mysqlAdvice(err) != "", mysqlAdvice(err), try)
	}
	end := "."
	if strings.HasSuffix(err.Error(), ".") {
		end = ""
	}
	err = fmt.Errorf("%s %s: %w%s Try: %s", doing, s.Name, err, end, try)
	if doing == "open" && !sqlguard.IsMissing(err) { // a database that only lacks the tables was reached
		return Unreachable(err)
	}
	return err
}

// Lacks returns an error if err says that the tables of a capability, or of the audit, are missing. Otherwise it returns nil.
func (s Source) Lacks(err error, what, capability string) error {
	err = sqlguard.Said(err)
	if !sqlguard.IsMissing(err) {
		return nil
	}
	if strings.Contains(err.Error(), "once_audit") {
		what, capability = "table for the audit", operate.Migrations.Capability
	}
	return fmt.Errorf("%s has no %s: %w. Try: once migrate up --only %s --db %s", s.Name, what, err, capability, s.Paste)
}

// mysqlAdvice is advice for an error of MySQL or MariaDB, or "".
func mysqlAdvice(err error) string {
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "use a certificate that this machine trusts; or use tls=skip-verify in the URL, which encrypts the connection and does not check the identity of the server"
	case errors.Is(err, mysql.ErrNoTLS):
		return "use a server with TLS, or a URL without tls=true"
	}
	switch code, _ := sqlguard.MySQLCode(err); code {
	case 1045:
		return "write the user and the password of the database into the URL"
	case 1044, 1142, 1227:
		return "use the URL of a user who has the missing privilege, or GRANT the missing privilege to this user"
	case 1049:
		return "run \"create database\" as a user who may create databases, or use the name of an existing database"
	case 1193:
		return "use only parameters of go-sql-driver/mysql in the URL, such as tls=true, or variables of the server, such as wait_timeout=60"
	case 1901, 3770: // an expression of a migration has a function that the server does not allow there
		return "use a tested version of MySQL or MariaDB: the command once doctor names the tested versions. This server refuses the SQL of the statement itself, so a user with more privileges does not help"
	case 3159:
		return "use tls=true in the URL; or use tls=skip-verify, which encrypts the connection and does not check the identity of the server"
	}
	return ""
}

// Redacted is u without its passwords, which may be in its query as well.
func Redacted(u *url.URL) string {
	q, hidden := u.Query(), false
	for _, name := range []string{"password", "sslpassword"} {
		if q.Has(name) {
			q.Set(name, "xxxxx")
			hidden = true
		}
	}
	if hidden {
		c := *u
		c.RawQuery = q.Encode()
		u = &c
	}
	return u.Redacted()
}

// ParseSource reads the value of --db. An SQLite file is given as sqlite:PATH, as a path, or as a data source name, file:PATH?...
func ParseSource(dsn string) (Source, error) {
	switch {
	case strings.HasPrefix(dsn, "file:"):
		return fileSource(dsn)
	case strings.HasPrefix(dsn, "sqlite:") && dsn != "sqlite:":
		return sqliteSource(strings.TrimPrefix(strings.TrimPrefix(dsn, "sqlite:"), "//"), dsn)
	case isPath(dsn):
		return sqliteSource(dsn, "sqlite:"+dsn)
	}
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		u, err := url.Parse(dsn)
		if err != nil {
			return Source{}, Usage("--db is not a URL", "--db postgres://user@host/name")
		}
		src := Source{sqlplane.PostgreSQL, "pgx", dsn, "", Redacted(u), "URL"}
		if src.Name == u.String() {
			src.Paste = words.Quoted(dsn)
		}
		return src, nil
	}
	if mysqlurl.Is(dsn) {
		return mysqlSource(dsn)
	}
	what := fmt.Sprintf("--db %q is not the URL of a supported database", dsn)
	switch {
	case strings.Contains(dsn, "@tcp(") || strings.Contains(dsn, "@unix("):
		return Source{}, Usage("--db is a data source name of the Go driver for MySQL, and not a URL", "--db mysql://USER:PASSWORD@HOST:3306/NAME, with the values of the data source name")
	case strings.ContainsAny(dsn, "@="): // it may contain a password: user:password@tcp(host)/name, or password=...
		what = "--db is not the URL of a supported database"
	case dsn == "":
		return Source{}, errNoDatabase
	}
	return Source{}, Usage(what, errNoDatabase.try)
}

var errNoDatabase = Usage("--db is missing", "--db sqlite:PATH, --db postgres://user@host/name, or --db mysql://user@host/name")

// isPath reports whether dsn is the path of a file: it has no scheme, and no character that a password could follow.
func isPath(dsn string) bool {
	scheme, _, hasColon := strings.Cut(dsn, ":")
	isDrive := len(scheme) == 1 // of Windows
	return dsn != "" && !strings.ContainsAny(dsn, "@=") && (!hasColon || isDrive)
}

func sqliteSource(path, dsn string) (Source, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Source{}, err
	}
	file := "file:" + (&url.URL{Path: abs}).EscapedPath() + "?" + sqliteSettings
	return Source{Dialect: sqlplane.SQLite, Driver: "sqlite", DSN: file, Path: path, Name: dsn, Paste: words.Quoted(dsn)}, nil
}

// sqliteSettings are the settings of the command: it waits for a file that a service writes, and takes the lock before it reads.
const sqliteSettings = "_pragma=busy_timeout(10000)&_txlock=immediate"

// fileSource is a data source name of the driver. Its own settings are kept, except _txlock, and the command's settings follow them.
func fileSource(dsn string) (Source, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return Source{}, Usage("--db is not a data source name", "--db 'file:app.db?_pragma=journal_mode(WAL)'")
	}
	path := words.Either(u.Opaque != "", u.Opaque, u.Path)
	if path == "" {
		return Source{}, Usage(fmt.Sprintf("--db %q does not name a file", dsn), "--db file:app.db")
	}
	own := u.Query()
	own.Del("_txlock")
	settings := words.Either(len(own) > 0, own.Encode()+"&", "") + sqliteSettings
	name, _, _ := strings.Cut(dsn, "?")
	return Source{Dialect: sqlplane.SQLite, Driver: "sqlite", DSN: name + "?" + settings, Path: path, Name: "sqlite:" + path, Paste: words.Quoted("sqlite:" + path)}, nil
}

// mysqlSource converts a URL for the driver, which understands the query of the URL.
func mysqlSource(dsn string) (Source, error) {
	const try = "--db mysql://user@host/name, or with ?tls=true for an encrypted connection"
	cfg, err := mysqlurl.Parse(dsn)
	if err != nil {
		return Source{}, Usage("--db: "+err.Error(), try)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return Source{}, Usage("--db is not a URL", try)
	}
	src := Source{sqlplane.MySQL, "mysql", cfg.FormatDSN(), "", Redacted(u), "URL"}
	if src.Name == u.String() {
		src.Paste = words.Quoted(dsn)
	}
	return src, nil
}

// Reached returns an error with the reason if the database cannot be reached. It does not wait for a silent server.
func Reached(ctx context.Context, src Source, db *sql.DB) error {
	patience := timeoutOf(ctx)
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := db.PingContext(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return Unreachable(fmt.Errorf("open %s: %w within %v. Try: check the address of the database, and whether this machine can reach this address; or use a longer --timeout if the database is slow", src.Name, ErrNoAnswer, patience))
	}
	if err != nil {
		return src.Failed("open", err)
	}
	return nil
}

// OpenDatabase opens an existing database. It creates a missing SQLite file only if write is true.
func OpenDatabase(ctx context.Context, dsn string, write bool) (*Database, error) {
	src, err := ParseSource(dsn)
	if err != nil {
		return nil, err
	}
	if src.Path != "" && !write {
		if _, err := os.Stat(src.Path); err != nil {
			return nil, Unreachable(fmt.Errorf("open %s: %w. Try: use the path that once demo serve has printed, or create the file with once migrate up --db %s", src.Name, err, src.Paste))
		}
	}
	db, err := sqlstore.Open(src.Driver, src.DSN)
	if err != nil {
		return nil, src.Failed("open", err)
	}
	if err := Reached(ctx, src, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Database{db, src}, nil
}

// DB is a database with its operator.
type DB struct {
	*Database
	*operate.Operator

	Store sqlplane.Database
}

// Audited returns an error if the table of the audit is missing, because then a change would be refused. Previews call it.
func (db *DB) Audited(ctx context.Context) error {
	if has, err := db.Keys.HasAudit(ctx); has || err != nil { // a user who may write to the audit may lack the right to read it
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("%s has no table for the audit, and the command changes nothing without an audit. Try: once migrate up --only %s --db %s", db.Name, operate.Migrations.Capability, db.Paste)
}

// Open opens an existing database that has been migrated.
func (m *Env) Open(ctx context.Context, dsn string, cfg operate.Config) (*DB, error) {
	db, err := OpenDatabase(ctx, dsn, false)
	if err != nil {
		return nil, err
	}
	open := m.OpenStore
	if open == nil {
		open = func(ctx context.Context, db *Database) (sqlplane.Database, error) {
			return sqlstore.New(ctx, db.DB, sqlstore.Config{})
		}
	}
	s, err := open(ctx, db)
	if err == nil {
		var o *operate.Operator
		if o, err = OperatorOn(s, cfg); err == nil {
			return &DB{db, o, s}, nil
		}
	}
	return nil, errors.Join(db.Failed("read", err), db.Close())
}

// OperatorOn returns the operator of s, whatever the type of its transactions.
func OperatorOn(s sqlplane.Database, cfg operate.Config) (*operate.Operator, error) {
	switch s := s.(type) {
	case operate.DB[*sql.Tx]:
		return operate.New(s, cfg), nil
	case operate.DB[pgx.Tx]:
		return operate.New(s, cfg), nil
	}
	return nil, fmt.Errorf("%T has no transactions", s)
}

// ErrNoAnswer says that an address was silent for too long.
var ErrNoAnswer = errors.New("the server has not answered")

// Plain opens the database without a guard.
func (s Source) Plain() (*sql.DB, error) {
	cfg, err := s.PGX()
	if cfg == nil || err != nil {
		db, e := sql.Open(s.Driver, s.DSN)
		if err == nil {
			err = e
		}
		return db, err
	}
	return stdlib.OpenDB(*cfg), nil
}

// PGX returns the configuration of a connection to PostgreSQL, or nil for another database. It does not prepare statements, which some poolers do not
// support.
func (s Source) PGX() (*pgx.ConnConfig, error) {
	if s.Dialect != sqlplane.PostgreSQL {
		return nil, nil //nolint:nilnil // see above
	}
	cfg, err := pgx.ParseConfig(s.DSN)
	if err == nil {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return cfg, err
}
