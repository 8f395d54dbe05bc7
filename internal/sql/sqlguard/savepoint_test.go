package sqlguard

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
)

// TestSavepointsDecideTheCommit plays scripts: "!" before a statement makes the database fail
// it, "-" expects the guard to refuse it. The last word is the fate of COMMIT.
func TestSavepointsDecideTheCommit(t *testing.T) {
	t.Parallel()
	all := []Dialect{PostgreSQL, MySQL, SQLite}
	for _, tt := range []struct {
		name     string
		dialects []Dialect
		script   string
		commits  bool
	}{
		{"heals", all, "SAVEPOINT a; !UPDATE t; -SELECT 1; ROLLBACK TO a; SELECT 2", true},
		{"names fold", all, "savepoint A; !UPDATE t; rollback to savepoint a", true},
		{"quoted", all, `SAVEPOINT "x y"; !UPDATE t; ROLLBACK TO "x y"`, true},
		{"heals twice", all, "SAVEPOINT a; !UPDATE t; ROLLBACK TO a; !UPDATE t; ROLLBACK TO a", true},
		{"nested, inner", all, "SAVEPOINT a; SAVEPOINT b; !UPDATE t; ROLLBACK TO b; SELECT 1", true},
		{"nested, outer", all, "SAVEPOINT a; SAVEPOINT b; !UPDATE t; ROLLBACK TO a; SELECT 1", true},
		{"RELEASE heals nothing", all, "SAVEPOINT a; !UPDATE t; -RELEASE a; -SELECT 1", false},
		{"unknown", all, "SAVEPOINT a; !UPDATE t; -ROLLBACK TO b", false},
		{"unknown, healthy", all, "ROLLBACK TO b; SELECT 1", true},
		{"made after the error", all, "!UPDATE t; -SAVEPOINT a; -ROLLBACK TO a", false},
		{"released before", all, "SAVEPOINT a; RELEASE a; !UPDATE t; -ROLLBACK TO a", false},
		{"released with its outer", all, "SAVEPOINT a; SAVEPOINT b; RELEASE a; !UPDATE t; -ROLLBACK TO b", false},
		{"rolled back before", all, "SAVEPOINT a; SAVEPOINT b; ROLLBACK TO a; !UPDATE t; -ROLLBACK TO b; ROLLBACK TO a", true},
		{"refused by the database", all, "SAVEPOINT a; !UPDATE t; !ROLLBACK TO a; -SELECT 1", false},
		{"refused, then accepted", all, "SAVEPOINT a; SAVEPOINT b; !UPDATE t; !ROLLBACK TO b; ROLLBACK TO a", true},
		{"a failing SAVEPOINT", all, "SAVEPOINT a; !SAVEPOINT b; -ROLLBACK TO b; ROLLBACK TO a", true},
		{"a failing RELEASE", all, "SAVEPOINT a; !RELEASE b; ROLLBACK TO a", true},
		{"same name, inner released", []Dialect{PostgreSQL, SQLite}, "SAVEPOINT a; SAVEPOINT a; RELEASE a; !UPDATE t; ROLLBACK TO a", true},
		{"same name replaced", []Dialect{MySQL}, "SAVEPOINT a; SAVEPOINT a; RELEASE a; !UPDATE t; -ROLLBACK TO a", false},
		{"replacing spares others", []Dialect{MySQL}, "SAVEPOINT a; SAVEPOINT b; SAVEPOINT a; ROLLBACK TO b; !UPDATE t; -ROLLBACK TO a; ROLLBACK TO b", true},
		{"capitals in quotes differ", []Dialect{PostgreSQL}, `SAVEPOINT a; !UPDATE t; -ROLLBACK TO "A"`, false},
		{"COMMIT by hand, undone", all, "SAVEPOINT a; -COMMIT; ROLLBACK TO a", true},
		{"batch with a savepoint", all, "-SAVEPOINT a\\; UPDATE t; -SELECT 1", false},
	} {
		for _, d := range tt.dialects {
			t.Run(d.String()+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				f := newFake()
				tx, txn := begun(t, f, d)
				play(t, f, tx, tt.script)
				if healthy := txn.Err() == nil; healthy != tt.commits {
					t.Errorf("Err() = %v", txn.Err())
				}
				if committed := tx.Commit() == nil; committed != tt.commits {
					t.Errorf("committed: %v", committed)
				}
			})
		}
	}
}

func play(t *testing.T, f *fake, tx *sql.Tx, script string) {
	t.Helper()
	const inner = "\x00"
	for step := range strings.SplitSeq(strings.ReplaceAll(script, `\;`, inner), "; ") {
		query := strings.ReplaceAll(strings.TrimLeft(step, "!-"), inner, ";")
		fails, refused := strings.HasPrefix(step, "!"), strings.HasPrefix(step, "-")
		f.took()
		if f.failing("exec "+query, nil); fails {
			f.failing("exec "+query, errDriver)
		}
		_, err := tx.Exec(query)
		reached := len(f.took()) > 0
		if errors.Is(err, errDriver) && reached != fails || reached == refused || (err != nil) != (fails || refused) {
			t.Errorf("%s: reached the driver: %v, error: %v", step, reached, err)
		}
	}
}

// TestSavepointYoungerThanTheFailedStatement: rows are read after a savepoint
// was made, and fail; their statement is older, so the savepoint does not undo it.
func TestSavepointYoungerThanTheFailedStatement(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, SQLite)
	f.results["SELECT 1"] = []error{nil, errDriver}
	play(t, f, tx, "SAVEPOINT old")
	rows, err := tx.Query("SELECT 1")
	must(t, err)
	play(t, f, tx, "SAVEPOINT young")
	if err := drained(rows, nil); !errors.Is(err, errDriver) {
		t.Fatal(err)
	}
	play(t, f, tx, "-ROLLBACK TO young; ROLLBACK TO old")
	must(t, txn.Err())
	must(t, tx.Commit())
}

// TestEarlierFailureComesLater: an older statement fails after a younger one, so
// only what is older than both heals.
func TestEarlierFailureComesLater(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, _ := begun(t, f, SQLite)
	f.results["SELECT 1"] = []error{nil, errDriver}
	rows, err := tx.Query("SELECT 1")
	must(t, err)
	play(t, f, tx, "SAVEPOINT a; !UPDATE t")
	if err := drained(rows, nil); !errors.Is(err, errDriver) {
		t.Fatal(err)
	}
	play(t, f, tx, "-ROLLBACK TO a")
	if err := tx.Commit(); !errors.Is(err, errDriver) {
		t.Errorf("Commit() = %v", err)
	}
}

func TestSavepointsAreNotCounted(t *testing.T) {
	t.Parallel()
	f := newFake()
	tx, txn := begun(t, f, SQLite)
	play(t, f, tx, "SELECT 1; SAVEPOINT a; !UPDATE t; -SELECT 2; ROLLBACK TO a; RELEASE a; SELECT 3")
	if txn.Statements() != 3 {
		t.Errorf("Statements() = %d, want 3", txn.Statements())
	}
	must(t, tx.Commit())
}
