package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "modernc.org/sqlite"             // driver "sqlite"

	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
)

// database is one that the command line names.
type database struct {
	*sql.DB
	dialect migration.Dialect
	name    string // without the password
}

const dbUsage = "`URL` of the database: sqlite:PATH or postgres://user@host/name"

// source is what a URL says about how to open it.
type source struct {
	dialect migration.Dialect
	driver  string
	dsn     string
	path    string // of an SQLite file
	name    string
}

func parseSource(dsn string) (source, error) {
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok && path != "" {
		path = strings.TrimPrefix(path, "//")
		abs, err := filepath.Abs(path)
		if err != nil {
			return source{}, err
		}
		file := "file:" + (&url.URL{Path: abs}).EscapedPath() + "?_pragma=busy_timeout(10000)&_txlock=immediate"
		return source{migration.SQLite, "sqlite", file, path, dsn}, nil
	}
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		u, err := url.Parse(dsn)
		if err != nil {
			return source{}, &usageError{"--db is not a URL", "--db postgres://user@host/name"}
		}
		return source{migration.PostgreSQL, "pgx", dsn, "", u.Redacted()}, nil
	}
	what := "--db is missing"
	if dsn != "" {
		what = fmt.Sprintf("--db %q names no database that once knows", dsn)
	}
	return source{}, &usageError{what, "--db sqlite:PATH, or --db postgres://user@host/name"}
}

// openDatabase opens what is there. Only write makes an SQLite file that is not.
func openDatabase(ctx context.Context, dsn string, write bool) (*database, error) {
	src, err := parseSource(dsn)
	if err != nil {
		return nil, err
	}
	if src.path != "" && !write {
		if _, err := os.Stat(src.path); err != nil {
			return nil, fmt.Errorf("open %s: %w. Try: the path that once demo serve has printed, or once migrate up --db %s", src.name, err, src.name)
		}
	}
	db, err := sqlstore.Open(src.driver, src.dsn)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", src.name, err)
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w. Try: --db with another URL", src.name, err), db.Close())
	}
	return &database{db, src.dialect, src.name}, nil
}
