package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// swept is a database with expired rows k1, k2, ..., behind a proxy.
type swept struct {
	*sqlstore.Store
	db    *sql.DB
	proxy *faultnet.Proxy
}

func sweptOn(t *testing.T, on innodb) swept {
	t.Helper()
	proxy, err := faultnet.Listen(on.server(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	db, s := on.open(t, "", proxy)
	return swept{s, db, proxy}
}

func (s swept) expire(t *testing.T, rows int) {
	t.Helper()
	run(t, s.db, "insert into once_operation (scope, `key`, state, claim, since, expires_at) select 's', concat('k', seq), 2, seq, 0, 1000 + seq from "+sequence(rows))
}

// sweep sweeps and returns in how many round trips.
func (s swept) sweep(t *testing.T, req upkeep.Sweep, rows int) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	before := s.proxy.Stats().RoundTrips
	got, err := s.Sweep(ctx, req)
	if err != nil || got.Rows != rows {
		t.Errorf("%+v, %v: want %d rows", got, err, rows)
	}
	return s.proxy.Stats().RoundTrips - before
}

func keepAll(context.Context, []upkeep.Expired) error { return nil }

// TestInnoDBSweepsAtOnce: a batch is one statement on MariaDB and one transaction of each part on MySQL, also while all other rows there are
// are locked; with Archive it is one for each part.
func TestInnoDBSweepsAtOnce(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		s := sweptOn(t, on)
		s.expire(t, 500) // most of all rows: to look for them no index is needed
		run(t, s.db, "insert into once_operation (scope, `key`, state, since, expires_at) select 'live', seq, 2, 0, 9e15 from "+sequence(300))
		s.db.SetMaxOpenConns(3)
		txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: "claimed"}})
		if err != nil || txn == nil {
			t.Fatal(txn, err)
		}
		t.Cleanup(func() { _ = txn.Rollback(context.Background()) })
		tx, err := s.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		run(t, tx, "select 1 from once_operation force index (once_operation_expires_at) where state = 2 and expires_at > 8e15 for update")
		run(t, s.db, "do 0") // connects
		deletes := func(parts int64) int64 { return 1 }
		part := int64(1)
		if on.mysql { // the rows are looked for, and each part is a transaction
			part = 5
			deletes = func(parts int64) int64 { return 1 + parts*part }
		}
		for _, c := range []struct {
			what        string
			trips, want int64
		}{
			{"deleted", s.sweep(t, upkeep.Sweep{Limit: 100}, 100), deletes(1)},
			{"kept", s.sweep(t, upkeep.Sweep{Limit: 250, Archive: keepAll}, 250), 1 + 3*part},
			{"the rest", s.sweep(t, upkeep.Sweep{Limit: 1000}, 150), deletes(2)},
			{"none", s.sweep(t, upkeep.Sweep{Limit: 1000}, 0), 1},
			{"none, kept", s.sweep(t, upkeep.Sweep{Limit: 1000, Archive: keepAll}, 0), 1},
		} {
			if c.trips != c.want {
				t.Errorf("%s: %d round trips, want %d", c.what, c.trips, c.want)
			}
		}
	})
}

// TestInnoDBSweepsAround: rows that others have locked stay, no sweeper waits for them, and they
// are deleted by a later sweep.
func TestInnoDBSweepsAround(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		s := sweptOn(t, on)
		for _, keep := range []func(context.Context, []upkeep.Expired) error{nil, keepAll} {
			s.expire(t, 250)
			tx, err := s.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			run(t, tx, "select 1 from once_operation where scope = 's' and `key` in ('k7', 'k120') for update")
			rows := 0
			for req := (upkeep.Sweep{Limit: 100, Archive: keep}); ; {
				got, err := s.Sweep(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				if rows += got.Rows; !got.More {
					break
				}
				req.After = got.Mark
			}
			if left := count(t, s.db, "select count(*) from once_operation where `key` in ('k7', 'k120')"); rows != 248 || left != 2 {
				t.Errorf("%d rows swept of 250, two of which are locked; %d of these are left", rows, left)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			s.sweep(t, upkeep.Sweep{Limit: 100, Archive: keep}, 2)
		}
	})
}

// TestInnoDBSweepLost: a sweep that commits by itself and is not answered is told as
// lost, applied or not, and what is there goes the next time.
func TestInnoDBSweepLost(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		for _, applied := range []bool{false, true} {
			for _, keep := range []func(context.Context, []upkeep.Expired) error{nil, keepAll} {
				t.Run(fmt.Sprintf("applied=%v/keeps=%v", applied, keep != nil), func(t *testing.T) {
					s := sweptOn(t, on)
					s.expire(t, 5)
					commits := "row_count()"
					if on.mysql {
						commits = "\x03COMMIT" // the whole statement
					}
					fault, left := faultnet.CutBefore(commits), 5
					if applied {
						fault, left = faultnet.SwallowAnswer(commits, ""), 0
					}
					trigger := s.proxy.Arm(fault)
					got, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 10, Archive: keep})
					if store.KindOf(err) != store.KindLost || got.Rows != 0 {
						t.Errorf("%+v, %v: want it to be lost", got, err)
					}
					select {
					case <-trigger.Done():
					case <-time.After(20 * time.Second):
						t.Fatal("vacuous: the fault has not struck")
					}
					if n := count(t, s.db, "select count(*) from once_operation"); n != left {
						t.Errorf("%d rows are left, want %d", n, left)
					}
					rest := 0
					harness.Until(t, func() error { // the server keeps the locks of a connection until it has seen its end
						got, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 10, Archive: keep})
						if rest += got.Rows; err != nil || rest < left {
							return fmt.Errorf("the next sweep: %+v, %w", got, err)
						}
						return nil
					})
					if rest != left {
						t.Errorf("%d rows were swept afterwards, want %d", rest, left)
					}
				})
			}
		}
	})
}

// TestInnoDBSweepOfLargeRows: with an archive, only some of them are in memory at a time.
func TestInnoDBSweepOfLargeRows(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		s := sweptOn(t, on)
		s.expire(t, 5)
		run(t, s.db, "update once_operation set body = repeat('x', 5 << 20)")
		sweepsLargeRows(t, s.Store)
	})
}
