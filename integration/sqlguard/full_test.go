package sqlguard

import (
	"errors"
	"testing"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
)

// TestFullDisk fills a disk that is really full.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !testenv.Isolated(t) {
		return
	}
	for _, journal := range []string{"wal", "delete"} {
		for _, play := range []struct {
			name, options string
			test          func(*testing.T, *testDB, *testenv.Disk)
		}{
			{"statement", "&_pragma=cache_size(10)", fullInStatement},
			{"commit", "", fullInCommit},
		} {
			t.Run(journal+" "+play.name, func(t *testing.T) {
				disk := testenv.NewDisk(t, 512<<10)
				play.test(t, liteAt(t, disk.Path, journal, play.options), disk)
			})
		}
	}
}

// fullInStatement drops the error of a statement that fills the disk.
func fullInStatement(t *testing.T, g *testDB, _ *testenv.Disk) {
	t.Helper()
	tx, txn := g.begin(t)
	bad, after := carryOn(t, g, tx, misuse{fail: execs("INSERT INTO effect " + manyRows + "SELECT x FROM c")})
	if code, _ := sqlguard.SQLiteCode(bad); code&0xff != sqliteFull {
		t.Errorf("the disk is not full: %v", bad)
	}
	var refused *sqlguard.RefusedError
	if !errors.As(after, &refused) || txn.Err() == nil {
		t.Errorf("the next statement: %v", after)
	}
	if err := tx.Commit(); !errors.As(err, &refused) {
		t.Errorf("Commit() = %v", err)
	}
	g.leaves(t, 0, 0)
}

// fullInCommit lets another process fill the disk, so that COMMIT has no room for
// what is still in memory.
func fullInCommit(t *testing.T, g *testDB, disk *testenv.Disk) {
	t.Helper()
	tx, _ := g.begin(t)
	insert(t, tx, "once_key")
	_, err := tx.ExecContext(t.Context(), "INSERT INTO effect "+manyRows+"SELECT x FROM c LIMIT 5000")
	must(t, err)
	must(t, disk.Fill(0))
	err = tx.Commit()
	must(t, disk.Free())
	failed(t, err, false)
	if code, _ := sqlguard.SQLiteCode(err); code&0xff != sqliteFull {
		t.Errorf("the disk is not full: %v", err)
	}
	g.leaves(t, 0, 0)
}

const sqliteFull = 13
