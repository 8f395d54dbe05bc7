package main

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
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"modernc.org/sqlite"               // driver "sqlite"

	"github.com/oncelib/once/admin"
	"github.com/oncelib/once/cmd/once/internal/mysqlurl"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// database is one that the command line names.
type database struct {
	*sql.DB
	source
}

// operations are those that a database keeps, and what an operator can do with them.
type operations struct {
	*database
	store store.Database
	admin *admin.Admin
}

const dbUsage = "`URL` of the database: sqlite:PATH, postgres://user@host/name or mysql://user@host/name (MySQL or MariaDB)"

// source is what a URL says about how to open it.
type source struct {
	dialect store.Dialect
	driver  string
	dsn     string
	path    string // of an SQLite file
	name    string // without the password
	paste   string // a word of a shell that names it, or URL if that would take the password
}

// failed is an error of the database, with what to look at first.
func (s source) failed(doing string, err error) error {
	try := "is it running, does it have this database, and may this user read it?"
	err = ownError(err)
	switch {
	case isMissingTable(err):
		try = "once migrate up --db " + s.paste
	case s.dialect == store.SQLite:
		try = "is it an SQLite file, in a folder that exists, and may you read and write it?"
	case s.dialect == store.MySQL:
		try = either(mysqlAdvice(err) != "", mysqlAdvice(err), try)
	}
	end := "."
	if strings.HasSuffix(err.Error(), ".") {
		end = ""
	}
	return fmt.Errorf("%s %s: %w%s Try: %s", doing, s.name, err, end, try)
}

// mysqlAdvice is what to try where MySQL or MariaDB has said what is wrong, else "".
func mysqlAdvice(err error) string {
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "a certificate that this machine trusts; or tls=skip-verify in the URL, which encrypts and does not check who answers"
	case errors.Is(err, mysql.ErrNoTLS):
		return "a server with TLS; or a URL without tls=true"
	case isMySQLError(err, 1045):
		return "the user and the password of the database, in the URL"
	case isMySQLError(err, 1044, 1142, 1227):
		return "the URL of a user who may do that, or a GRANT for this one"
	case isMySQLError(err, 1049):
		return "create database, as a user who may; or the name of one that exists"
	case isMySQLError(err, 1193):
		return "a URL with parameters of go-sql-driver/mysql, such as tls=true, or with variables of the server, such as wait_timeout=60"
	case isMySQLError(err, 3159):
		return "tls=true in the URL; or tls=skip-verify, which encrypts and does not check who answers"
	}
	return ""
}

// isMissingTable reports whether a table or a column does not exist yet.
func isMissingTable(err error) bool {
	if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
		return e.Number == 1146 || e.Number == 1054
	}
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState() == "42P01" || state.SQLState() == "42703"
	}
	return err != nil && (strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "no such column"))
}

// ownError is what the database itself has said, if it has: what a store adds to that is for
// services.
func ownError(err error) error {
	var postgres interface {
		error
		SQLState() string
	}
	var mariadb *mysql.MySQLError
	var lite *sqlite.Error
	var e *store.Error
	switch {
	case !errors.As(err, &e):
		return err
	case errors.As(err, &postgres):
		return postgres
	case errors.As(err, &mariadb):
		return mariadb
	case errors.As(err, &lite):
		return lite
	}
	return e.Err
}

// redacted is u without its passwords, which may be in its query as well.
func redacted(u *url.URL) string {
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

func parseSource(dsn string) (source, error) {
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok && path != "" {
		path = strings.TrimPrefix(path, "//")
		abs, err := filepath.Abs(path)
		if err != nil {
			return source{}, err
		}
		file := "file:" + (&url.URL{Path: abs}).EscapedPath() + "?_pragma=busy_timeout(10000)&_txlock=immediate"
		return source{store.SQLite, "sqlite", file, path, dsn, quoted(dsn)}, nil
	}
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		u, err := url.Parse(dsn)
		if err != nil {
			return source{}, &usageError{"--db is not a URL", "--db postgres://user@host/name"}
		}
		src := source{store.PostgreSQL, "pgx", dsn, "", redacted(u), "URL"}
		if src.name == u.String() {
			src.paste = quoted(dsn)
		}
		return src, nil
	}
	if mysqlurl.Is(dsn) {
		return mysqlSource(dsn)
	}
	what := "--db is missing"
	switch {
	case strings.ContainsAny(dsn, "@="): // it may have a password: user:password@tcp(host)/name, or password=...
		what = "--db names no database that once knows: it is not a URL"
	case dsn != "":
		what = fmt.Sprintf("--db %q names no database that once knows", dsn)
	}
	return source{}, &usageError{what, "--db sqlite:PATH, --db postgres://user@host/name, or --db mysql://user@host/name"}
}

// mysqlSource is a URL in the words of the driver, which takes its query as it is.
func mysqlSource(dsn string) (source, error) {
	const try = "--db mysql://user@host/name, or with ?tls=true for an encrypted connection"
	cfg, err := mysqlurl.Parse(dsn)
	if err != nil {
		return source{}, &usageError{"--db: " + err.Error(), try}
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return source{}, &usageError{"--db is not a URL", try}
	}
	src := source{store.MySQL, "mysql", cfg.FormatDSN(), "", redacted(u), "URL"}
	if src.name == u.String() {
		src.paste = quoted(dsn)
	}
	return src, nil
}

// reached says why the database is not reached. A server that is silent is not waited for.
func reached(ctx context.Context, src source, db *sql.DB) error {
	patience := timeoutOf(ctx)
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := db.PingContext(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("open %s: %w within %v. Try: is this the address of a database, and can it be reached from here? A longer --timeout if it is slow", src.name, errNoAnswer, patience)
	}
	if err != nil {
		return src.failed("open", err)
	}
	return nil
}

// openDatabase opens what is there. Only write makes an SQLite file that is not.
func openDatabase(ctx context.Context, dsn string, write bool) (*database, error) {
	src, err := parseSource(dsn)
	if err != nil {
		return nil, err
	}
	if src.path != "" && !write {
		if _, err := os.Stat(src.path); err != nil {
			return nil, fmt.Errorf("open %s: %w. Try: the path that once demo serve has printed, or once migrate up --db %s", src.name, err, src.paste)
		}
	}
	db, err := sqlstore.Open(src.driver, src.dsn)
	if err != nil {
		return nil, src.failed("open", err)
	}
	if err := reached(ctx, src, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &database{db, src}, nil
}

// openOperations opens a database that is there and has been migrated.
func (m *Main) openOperations(ctx context.Context, dsn string) (*operations, error) {
	db, err := openDatabase(ctx, dsn, false)
	if err != nil {
		return nil, err
	}
	open := m.openStore
	if open == nil {
		open = func(ctx context.Context, db *database) (store.Database, error) { return sqlstore.New(ctx, db.DB) }
	}
	s, err := open(ctx, db)
	if err != nil {
		return nil, errors.Join(db.failed("read", err), db.Close())
	}
	return &operations{db, s, admin.New(s)}, nil
}
