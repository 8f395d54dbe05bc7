package main

import (
	"database/sql"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

// listed is every migration of a schema, as a list that says word of each.
func listed(tb testing.TB, word string) string {
	tb.Helper()
	all, err := migration.All(store.SQLite)
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for _, m := range all {
		b.WriteString(word + "  " + fileName(m) + "\n")
	}
	return b.String()
}

// TestMigrate: up makes what status misses, and only once.
func TestMigrate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db string) {
		if strings.HasPrefix(db, "postgres") {
			o := run(t, "migrate", "status", "--db", db).want(t, 1)
			if o.stdout != listed(t, "missing") || !strings.Contains(o.stderr, "\nTry: once migrate up --db '"+db+"'\n") {
				t.Errorf("%s%s", o.stdout, o.stderr)
			}
		} else {
			run(t, "migrate", "status", "--db", db).want(t, 1)
		}
		if o := run(t, "migrate", "up", "--db", db).want(t, 0); !strings.HasPrefix(o.stdout, listed(t, "applied")) {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "migrate", "up", "--db", db).want(t, 0); strings.Contains(o.stdout, "applied") || !strings.Contains(o.stdout, "at version ") {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "migrate", "status", "--db", db).want(t, 0); o.stdout != listed(t, "applied") {
			t.Errorf("%s", o.stdout)
		}
	})
}

// TestMigratePrint: what is printed is what a database takes.
func TestMigratePrint(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, url string) {
		src, err := parseSource(url)
		if err != nil {
			t.Fatal(err)
		}
		text := run(t, "migrate", "print", "--dialect", string(src.dialect)).want(t, 0).stdout
		if src.dialect == store.MySQL {
			src.dsn += "&multiStatements=true" // as its client has
		}
		db, err := sql.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		if o := run(t, "migrate", "status", "--db", url).want(t, 0); o.stdout != listed(t, "applied") {
			t.Errorf("the migrations do not count as applied: %s", o.stdout)
		}
		if o := run(t, "keys", "show", "k", "--db", url).want(t, 1); !strings.Contains(o.stdout, "Nothing is known") {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
	})
	goose := run(t, "migrate", "print", "--dialect", "postgres", "--format", "goose").want(t, 0).stdout
	if !strings.HasPrefix(goose, "-- +goose Up\n-- +goose StatementBegin\n") || !strings.HasSuffix(goose, "-- +goose StatementEnd\n") {
		t.Errorf("%s", goose)
	}
	all, err := migration.All(store.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	if o := run(t, "migrate", "print", "--dialect", "sqlite", "--from", strconv.Itoa(len(all))).want(t, 0); o.stdout != "" {
		t.Errorf("%s", o.stdout)
	}
}
