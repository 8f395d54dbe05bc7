package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/oncelib/once/gateway/receipt"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/retention/archive"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlstore"
)

// archiveAll is what the victim does: a sweep of all that has expired into an archive, operations and then receipts.
func archiveAll(ctx context.Context, p plan) error {
	db, err := sqlstore.Open("sqlite", p.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		return err
	}
	files, err := archive.Open(p.Witness)
	if err != nil {
		return err
	}
	sweeper := retention.New(s, retention.Config{Batch: 4, Rate: 1 << 30, Archive: files.Write})
	_, err = sweeper.Sweep(ctx)
	if err == nil {
		_, err = receipt.New(s, receipt.Config{Archive: files.Write}).Sweep(ctx, receipt.MinRetain)
	}
	return errors.Join(err, files.Close())
}

// TestArchiveKill kills a real process that archives at the N-th system call of each
// kind by which files change, N = 1, 2, ... until it survives. At every moment each
// operation and each receipt is in the database or in the archive, or in both.
func TestArchiveKill(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "strace")
	t.Parallel()
	for _, call := range []string{"write", "pwrite64", "fsync", "renameat"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			a := archiveSiege{testDB: sqliteTestDB(t, harness.SQLite, "WAL"), dir: filepath.Join(t.TempDir(), "archive"), want: map[string]bool{}}
			if err := a.Migrate(t.Context(), []migration.Set{receipt.Migrations}); err != nil {
				t.Fatal(err)
			}
			n := int64(1)
			for a.strike(t, call, n) && !t.Failed() {
				n += int64(scale(2, 1)) // each round is another one's archive
			}
			testenv.Reportf(t, "%d kills, %d rows archived, %d of them twice or more", a.kills, len(a.want), a.twice)
			if a.kills < 2 {
				t.Errorf("vacuous: %d kills", a.kills)
			}
		})
	}
}

type archiveSiege struct {
	*testDB
	dir          string
	want         map[string]bool
	kills, twice int
}

// strike lets some operations expire, kills the process that archives them, and lets another
// finish. It reports whether it came to that.
func (a *archiveSiege) strike(t *testing.T, call string, at int64) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range 9 {
		key := fmt.Sprintf("%s-%d-%d", call, at, i)
		_, err := a.db.ExecContext(ctx, "insert into once_operation (scope, key, claim, since, expires_at) values (?, ?, randomblob(16), 1, 2)", scope, key)
		if err != nil {
			t.Fatal(err)
		}
		a.want[key] = true
		key = "receipt-" + key
		_, err = a.db.ExecContext(ctx, "insert into once_receipt (operation, status, body, created_at) values (?, 200, randomblob(16), 1)", key)
		if err != nil {
			t.Fatal(err)
		}
		a.want[key] = true
	}
	p := plan{DSN: a.DSN, Flow: flowArchive, Witness: a.dir}
	_, killed, err := p.carryOut(t, (&point{mode: call, at: at}).tracer()...)
	if err != nil {
		t.Fatalf("%s %d: %v", call, at, err)
	}
	a.check(ctx, t, call, at)
	if !killed {
		return false
	}
	a.kills++
	if _, _, err := p.carryOut(t); err != nil {
		t.Fatalf("after a kill at %s %d: %v", call, at, err)
	}
	a.check(ctx, t, call, at)
	var left int
	if err := a.db.QueryRowContext(ctx, "select (select count(*) from once_operation) + (select count(*) from once_receipt)").Scan(&left); err != nil || left > 0 {
		t.Errorf("after %s %d: %d rows left, %v", call, at, left, err)
	}
	if _, damaged, err := archive.Verify(ctx, a.dir); err != nil || len(damaged) > 0 {
		t.Errorf("after %s %d: %+v, %v", call, at, damaged, err)
	}
	return true
}

func (a *archiveSiege) check(ctx context.Context, t *testing.T, call string, at int64) {
	t.Helper()
	found := map[string]int{}
	var first error
	claims := map[store.ID]string{}
	for e, err := range archive.Records(a.dir) {
		if err != nil {
			first = err // a manifest that is not there yet
			break
		}
		if c, again := claims[e.ID]; again && c != string(e.Nonce)+string(e.Row) {
			t.Errorf("%v is in the archive with two claims or contents", e.ID)
		}
		claims[e.ID] = string(e.Nonce) + string(e.Row)
		found[e.Key]++
	}
	rows, err := a.db.QueryContext(ctx, "select key from once_operation union all select operation from once_receipt")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	stored := map[string]bool{}
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			t.Fatal(err)
		}
		stored[key] = true
	}
	a.twice = 0
	for key := range a.want {
		if found[key] == 0 && !stored[key] {
			t.Errorf("after %s %d: %q is neither in the database nor in the archive; %v, %v", call, at, key, first, rows.Err())
		}
		if found[key] > 1 {
			a.twice++
		}
	}
}
