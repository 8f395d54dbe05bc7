package restore

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }

// backup takes a backup of a database that no process has open, and returns what restores it: pg_dump and pg_restore, a copy of the file, or of
// each table.
func backup(t *testing.T, d harness.Database) (restore func()) {
	t.Helper()
	switch d.Kind {
	case harness.SQLite, harness.Group:
		file, _, _ := strings.Cut(strings.TrimPrefix(d.DSN, "file:"), "?")
		kept := filepath.Join(t.TempDir(), "backup.db")
		copyFile(t, file, kept)
		return func() {
			t.Helper()
			for _, end := range []string{"-wal", "-shm"} {
				_ = os.Remove(file + end)
			}
			copyFile(t, kept, file)
		}
	case harness.MariaDB, harness.MySQL:
		return copyTables(t, d)
	}
	kept := filepath.Join(t.TempDir(), "backup.dump")
	run(t, "pg_dump", "--format=custom", "--no-owner", "--file="+kept, "--dbname="+d.DSN)
	return func() {
		t.Helper()
		run(t, "pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", "--dbname="+d.DSN, kept)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if info, err := os.Stat(from + "-wal"); err == nil && info.Size() > 0 {
		t.Fatalf("%s has a log: a process has it open", from)
	}
	in, err := os.Open(from)
	must(t, err)
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
}

// run runs a program of PostgreSQL, of the version of the server.
func run(t *testing.T, program string, args ...string) {
	t.Helper()
	path, err := testenv.Binary(program)
	must(t, err)
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// copyTables keeps a copy of each table beside it.
func copyTables(t *testing.T, d harness.Database) (restore func()) {
	t.Helper()
	db, err := sql.Open("mysql", d.DSN)
	must(t, err)
	defer func() { _ = db.Close() }()
	var names []string
	rows, err := db.QueryContext(t.Context(), "select table_name from information_schema.tables where table_schema = database()")
	must(t, err)
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		names = append(names, name)
	}
	must(t, rows.Err())
	exec := func(db *sql.DB, query, name string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), fmt.Sprintf(query, name))
		must(t, err)
	}
	for _, name := range names {
		exec(db, "create table kept_%[1]s like %[1]s", name)
		exec(db, "insert into kept_%[1]s select * from %[1]s", name)
	}
	return func() {
		t.Helper()
		db, err := sql.Open("mysql", d.DSN)
		must(t, err)
		defer func() { _ = db.Close() }()
		for _, name := range names {
			exec(db, "truncate %[1]s", name)
			exec(db, "insert into %[1]s select * from kept_%[1]s", name)
		}
	}
}
