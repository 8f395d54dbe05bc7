package main

import (
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
)

// listed is every migration of this release, as a list that says word of each.
func listed(tb testing.TB, word string, sets ...migration.Set) string {
	tb.Helper()
	if len(sets) == 0 {
		sets = migrate.Capabilities
	}
	all, err := migration.All(sqlplane.SQLite, sets...)
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s  %-10s  %s\n", word, m.Capability, m.File())
	}
	return b.String()
}

// TestMigrateUpAppliesWhatIsMissing: up makes what status misses, and only once.
func TestMigrateUpAppliesWhatIsMissing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, db string) {
		if strings.HasPrefix(db, "postgres") {
			o := run(t, "migrate", "status", "--db", db).want(t, 1)
			if o.stdout != listed(t, "missing") || !strings.Contains(o.stderr, "\nTry: once migrate up --db '"+db+"'\n") {
				t.Errorf("%s%s", o.stdout, o.stderr)
			}
		} else {
			run(t, "migrate", "status", "--db", db).want(t, unready(db))
		}
		if o := run(t, "migrate", "up", "--db", db).want(t, 0); !strings.HasPrefix(o.stdout, listed(t, "applied")) {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "migrate", "up", "--db", db).want(t, 0); strings.Contains(o.stdout, "applied") || !strings.Contains(o.stdout, " is at operation 5, ") {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "migrate", "status", "--db", db).want(t, 0); o.stdout != listed(t, "applied") {
			t.Errorf("%s", o.stdout)
		}
	})
}

// TestMigrateOnly: --only creates the named tables and no others. The others can be created later.
func TestMigrateOnly(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		if o := run(t, "migrate", "up", "--only", "journal", "--db", url).want(t, 0); !strings.HasPrefix(o.stdout, listed(t, "applied", journal.Migrations)) {
			t.Errorf("%s", o.stdout)
		}
		if got := tables(t, url); !slices.Equal(got, []string{"once_intent", "once_schema"}) {
			t.Errorf("tables: %v", got)
		}
		o := run(t, "migrate", "status", "--only", "journal,attemptlog", "--only=operate", "--db", url).want(t, 1)
		if o.stdout != listed(t, "missing", attemptlog.Migrations, operate.Migrations)+listed(t, "applied", journal.Migrations) ||
			!strings.Contains(o.stderr, "Try: once migrate up --only journal,attemptlog,operate --db ") {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
		if f := examined(t, url)["migrations"]; f.Verdict != fail || !strings.Contains(f.Says, "of operation are missing") {
			t.Errorf("%+v", f)
		}
		run(t, "migrate", "up", "--only", "operation", "--db", url).want(t, 0)
		if f := examined(t, url)["migrations"]; f.Verdict != okay || !strings.Contains(f.Says, "the database has no tables of attemptlog, operate") {
			t.Errorf("%+v", f)
		}
		run(t, "migrate", "status", "--only", "operation, journal", "--db", url).want(t, 0)
		run(t, "migrate", "up", "--db", url).want(t, 0)
		if o := run(t, "migrate", "status", "--db", url).want(t, 0); o.stdout != listed(t, "applied") {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "migrate", "up", "--only", "outbux", "--db", url).want(t, 2); !strings.Contains(o.stderr, `capability "outbux" does not exist`) || !strings.Contains(o.stderr, "operation, attemptlog, operate, journal, outbox, inbox, deadletter") {
			t.Errorf("%s", o.stderr)
		}
	})
}

// tables returns the names of once's tables, sorted.
func tables(t *testing.T, url string) (names []string) {
	t.Helper()
	db, err := cli.OpenDatabase(t.Context(), url, true)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), map[sqlplane.Dialect]string{
		sqlplane.PostgreSQL: "select tablename from pg_tables where schemaname = 'public'",
		sqlplane.SQLite:     "select name from sqlite_master where type = 'table'",
		sqlplane.MySQL:      "select table_name from information_schema.tables where table_schema = database()",
	}[db.Dialect])
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		names = append(names, "")
		if err := rows.Scan(&names[len(names)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestMigrateNewer: a database that a newer release has changed is left alone, whichever
// capability it was, also when others are asked for.
func TestMigrateNewer(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		run(t, "migrate", "up", "--only", "operation,journal", "--db", url).want(t, 0)
		db, err := cli.OpenDatabase(t.Context(), url, true)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		exec := func(query string) {
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		exec("insert into once_schema (capability, version, name) values ('journal', 9, 'later')")
		before := tables(t, url)
		for _, args := range []string{"migrate up", "migrate up --only attemptlog", "migrate status", "migrate status --only operation"} {
			o := run(t, append(strings.Fields(args), "--db", url)...).want(t, 1)
			if !strings.Contains(o.stderr, "version 9 of the tables of journal, but this program knows only versions up to 1") || !strings.Contains(o.stderr, "Try: a newer release of once") {
				t.Errorf("%s: %s", args, o.stderr)
			}
		}
		if after := tables(t, url); !slices.Equal(before, after) {
			t.Errorf("%v before, %v afterwards", before, after)
		}
		exec("delete from once_schema where version = 9")
		exec("insert into once_schema (capability, version, name) values ('weather', 9, 'of another program')")
		run(t, "migrate", "up", "--db", url).want(t, 0)
	})
}

// TestMigratePrint: what is printed is what a database takes.
func TestMigratePrint(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		src, err := cli.ParseSource(url)
		if err != nil {
			t.Fatal(err)
		}
		text := run(t, "migrate", "print", "--dialect", string(src.Dialect)).want(t, 0).stdout
		if src.Dialect == sqlplane.MySQL {
			src.DSN += "&multiStatements=true" // as its client has
		}
		db, err := sql.Open(src.Driver, src.DSN)
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
		if o := run(t, "keys", "show", "k", "--db", url).want(t, 3); !strings.Contains(o.stdout, "has no operation with the key") {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
	})
	goose := run(t, "migrate", "print", "--dialect", "postgres", "--format", "goose").want(t, 0).stdout
	if !strings.HasPrefix(goose, "-- +goose Up\n-- +goose StatementBegin\n") || !strings.HasSuffix(goose, "-- +goose StatementEnd\n") {
		t.Errorf("%s", goose)
	}
	all, err := migration.All(sqlplane.SQLite, migration.Operation)
	if err != nil {
		t.Fatal(err)
	}
	newest := strconv.Itoa(len(all))
	for from, want := range map[string]int{"0": len(all), "2": len(all) - 2, newest: 0, "99": 0} {
		o := run(t, "migrate", "print", "--dialect", "sqlite", "--only", "operation", "--from", from).want(t, 0)
		if got := strings.Count(o.stdout, "insert into once_schema"); got != want || strings.Contains(o.stdout, "once_attempt") {
			t.Errorf("--from %s: %s", from, o.stdout)
		}
	}
	run(t, "migrate", "print", "--dialect", "sqlite", "--from", newest).want(t, 2) // of which capability?
	if text := run(t, "migrate", "print", "--dialect", "dynamodb").want(t, 0).stdout; !strings.Contains(text, `"TableName": "once"`) {
		t.Errorf("the definition of a table of DynamoDB is %s", text)
	}
}
