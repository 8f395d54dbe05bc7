package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestSQLiteSweepsInParts: the file is locked for a few rows at a time, kept or not; a part
// that fails takes those before it not back, and what is left is found again. The
// connection is afterwards what it was.
func TestSQLiteSweepsInParts(t *testing.T) {
	for _, kind := range []string{harness.SQLite, harness.Group} {
		t.Run(kind, func(t *testing.T) {
			db, st := migrated(t, newSource(t, kind))
			sqliteSweepsInParts(t, db, st)
		})
	}
}

func sqliteSweepsInParts(t *testing.T, db *sql.DB, s *sqlstore.Store) {
	t.Helper()
	db.SetMaxOpenConns(1)
	expire := func() {
		t.Helper()
		for i := range 60 {
			run(t, db, fmt.Sprintf("insert into once_operation (scope, key, claim, since, expires_at) values ('s', 'k%02d', x'%02x', 0, %d)", i, i, 1000+i))
		}
	}
	kept := map[string]int{}
	keep := func(_ context.Context, rows []upkeep.Expired) error {
		for _, r := range rows {
			kept[r.Key]++
		}
		return nil
	}
	swept := func(req upkeep.Sweep, rows int, more bool) upkeep.Swept {
		t.Helper()
		got, err := s.Sweep(t.Context(), req)
		if err != nil || got.Rows != rows || got.More != more {
			t.Errorf("%+v, %v, want %d rows", got, err, rows)
		}
		return got
	}
	expire()
	swept(upkeep.Sweep{Limit: 20}, 20, true)
	swept(upkeep.Sweep{Limit: 1000}, 40, false)

	for _, keep := range []func(context.Context, []upkeep.Expired) error{nil, keep} {
		expire()
		run(t, db, "create trigger stop before delete on once_operation when old.key = 'k55' begin select raise(abort, 'stop'); end")
		const before = 40 // of two parts
		first := swept(upkeep.Sweep{Limit: 1000, Archive: keep}, before, true)
		if _, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 1000, Archive: keep, After: first.Mark}); err == nil {
			t.Error("a part that has failed is no error")
		}
		run(t, db, "drop trigger stop")
		swept(upkeep.Sweep{Limit: 1000, Archive: keep, After: first.Mark}, 60-before, false)
	}
	if n := count(t, db, "select count(*) from once_operation"); n != 0 || len(kept) != 60 {
		t.Errorf("%d rows are left, %d were kept", n, len(kept))
	}
	if n := count(t, db, "pragma wal_autocheckpoint"); n != 1000 {
		t.Errorf("wal_autocheckpoint left behind: %d", n)
	}
	if n := count(t, db, "pragma synchronous"); n != 2 {
		t.Errorf("synchronous left behind: %d", n)
	}
}

// TestSweepOfLargeRows: with an archive, only some of them are in memory at a time.
func TestSweepOfLargeRows(t *testing.T) {
	for _, kind := range []string{harness.SQLite, harness.Postgres} {
		t.Run(kind, func(t *testing.T) {
			db, s := migrated(t, newSource(t, kind))
			large, claim, at := "zeroblob(5 << 20)", "x'63'", "%[1]d"
			if kind == harness.Postgres {
				large, claim, at = "decode(repeat('00', 5 << 20), 'hex')", "'c'", "to_timestamp(%[1]d)"
			}
			for i := range 5 {
				run(t, db, fmt.Sprintf("insert into once_operation (scope, key, claim, since, expires_at, body) values ('s', 'k%[1]d', %[2]s, "+at+", "+at+", %[3]s)", 1+i, claim, large))
			}
			sweepsLargeRows(t, s)
		})
	}
}

// sweepsLargeRows sweeps five rows of 5 MiB with an archive.
func sweepsLargeRows(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	archived := map[string]int{}
	req := upkeep.Sweep{Limit: 10, Archive: func(_ context.Context, rows []upkeep.Expired) error {
		for _, r := range rows {
			archived[r.Key]++
		}
		return nil
	}}
	for i, rows := range []int{2, 2, 1, 0} {
		swept, err := s.Sweep(t.Context(), req)
		if err != nil || swept.Rows != rows || swept.More != (i < 2) {
			t.Errorf("%d: %+v, %v: want %d rows", i, swept, err, rows)
		}
		req.After = swept.Mark
	}
	if len(archived) != 5 {
		t.Errorf("of 5 rows are archived: %v", archived)
	}
}
