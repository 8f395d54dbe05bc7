package pgxstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncelib/once/store/pgxstore"
	"github.com/oncelib/once/store/upkeep"
)

const expired = `insert into once_operation (scope, key, claim, expires_at)
 select 's', 'k' || g, 'c', '2001-01-01Z'::timestamptz + g * interval '1 minute' from generate_series(1, 5) g`

// TestSweepRefusedCommit: a sweep travels with its COMMIT, and if that alone is refused,
// nothing has been swept.
func TestSweepRefusedCommit(t *testing.T) {
	pool := openPool(t)
	for _, sql := range []string{
		expired,
		"create function refuse() returns trigger language plpgsql as $$ begin raise 'not today'; end $$",
		"create constraint trigger refusing after delete on once_operation deferrable initially deferred for each row execute function refuse()",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s := pgxstore.New(pool, pgxstore.Config{})
	swept, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 10})
	if err == nil || swept.Rows != 0 {
		t.Errorf("%+v, %v: want the error of COMMIT", swept, err)
	}
	if n := count(t, pool, "select count(*) from once_operation"); n != 5 {
		t.Errorf("%d rows are left of 5", n)
	}
	if _, err := pool.Exec(t.Context(), "drop trigger refusing on once_operation"); err != nil {
		t.Fatal(err)
	}
	if swept, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 10}); err != nil || swept.Rows != 5 {
		t.Errorf("%+v, %v: want 5 rows, on the same connection", swept, err)
	}
}

// TestSweepMark: the mark is the latest moment of what was swept, and stays if nothing was.
func TestSweepMark(t *testing.T) {
	pool := openPool(t)
	if _, err := pool.Exec(t.Context(), expired); err != nil {
		t.Fatal(err)
	}
	s, req := pgxstore.New(pool, pgxstore.Config{}), upkeep.Sweep{Limit: 2}
	for i, minute := range []int{2, 4, 5, 5} {
		swept, err := s.Sweep(t.Context(), req)
		want := time.Date(2001, 1, 1, 0, minute, 0, 0, time.UTC)
		if err != nil || !swept.Mark.Equal(want) || swept.More != (i < 2) {
			t.Errorf("%d: %+v, %v: want the mark %v", i, swept, err, want)
		}
		req.After = swept.Mark
	}
}

// TestSweepOfLargeRows: with an archive, only some of them are in memory at a time.
func TestSweepOfLargeRows(t *testing.T) {
	pool := openPool(t)
	for _, sql := range []string{expired, "update once_operation set body = decode(repeat('00', 5 << 20), 'hex')"} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s, req := pgxstore.New(pool, pgxstore.Config{}), upkeep.Sweep{Limit: 10}
	archived := 0
	req.Archive = func(_ context.Context, rows []upkeep.Expired) error { archived += len(rows); return nil }
	for i, rows := range []int{2, 2, 1} {
		swept, err := s.Sweep(t.Context(), req)
		if err != nil || swept.Rows != rows || swept.More != (i < 2) {
			t.Errorf("%d: %+v, %v: want %d rows", i, swept, err, rows)
		}
		req.After = swept.Mark
	}
	if n := count(t, pool, "select count(*) from once_operation"); n != 0 || archived != 5 {
		t.Errorf("%d rows are left, and %d are archived, of 5", n, archived)
	}
}
