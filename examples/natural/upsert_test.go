package natural

import (
	"database/sql"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// amountOf is what a version of a price has, so that a mixture of two versions is seen.
func amountOf(version int64) int64 { return version * 100 }

// TestAnOlderVersionOverwritesNothing: every client writes every version twice, in an order of its own.
func TestAnOlderVersionOverwritesNothing(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		const versions = 8
		set := func(version int64) (Price, error) {
			return SetPrice(t.Context(), g, g.dialect, Price{"book", amountOf(version), version})
		}
		atOnce(func(client int64) {
			order := rand.New(rand.NewPCG(uint64(client), 0)).Perm(2 * versions)
			last := int64(0)
			for _, n := range order {
				version := int64(n%versions + 1)
				stored, err := set(version)
				if err != nil || stored.Version < max(version, last) || stored.Amount != amountOf(stored.Version) {
					t.Errorf("version %d after %d: %+v, %v", version, last, stored, err)
				}
				last = stored.Version
			}
		})
		newest := Price{"book", amountOf(versions), versions}
		for version := int64(1); version <= versions; version++ {
			if stored, err := set(version); err != nil || stored != newest {
				t.Errorf("version %d again: %+v, %v", version, stored, err)
			}
		}
		next := newest
		next.Amount, next.Version = 7, next.Version+1
		for range 2 {
			if stored, err := SetPrice(t.Context(), g, g.dialect, next); err != nil || stored != next {
				t.Errorf("the next version: %+v, %v", stored, err)
			}
		}
	})
}

// TestTwoStatesWithOneVersion: the first one stays, and the caller sees it.
func TestTwoStatesWithOneVersion(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		first, second := Price{"book", 1, 1}, Price{"book", 2, 1}
		for _, p := range []Price{first, second} {
			if stored, err := SetPrice(t.Context(), g, g.dialect, p); err != nil || stored != first {
				t.Errorf("%+v: %+v, %v", p, stored, err)
			}
		}
	})
}

// TestAnUpsertSeesTheNewestState also in a transaction that has read an older one.
func TestAnUpsertSeesTheNewestState(t *testing.T) {
	onMySQL(t, "", func(t *testing.T, g testDB) {
		if _, err := SetPrice(t.Context(), g, g.dialect, Price{"book", 1, 1}); err != nil {
			t.Fatal(err)
		}
		tx, err := g.BeginTx(t.Context(), nil)
		must(t, err)
		defer tx.Rollback()
		var version int64
		must(t, tx.QueryRowContext(t.Context(), "select version from price").Scan(&version)) // takes the snapshot
		newest := Price{"book", 3, 3}
		if _, err := SetPrice(t.Context(), g, g.dialect, newest); err != nil {
			t.Fatal(err)
		}
		if stored, err := SetPrice(t.Context(), tx, g.dialect, Price{"book", 2, 2}); err != nil || stored != newest {
			t.Errorf("%+v, %v", stored, err)
		}
	})
}

// TestAnUpsertAtRepeatableRead: on PostgreSQL a transaction that has read an older state fails, and is
// to be run again.
func TestAnUpsertAtRepeatableRead(t *testing.T) {
	g := newPostgres(t)
	tx, err := g.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(t, err)
	defer tx.Rollback()
	var n int64
	must(t, tx.QueryRowContext(t.Context(), "select count(*) from price").Scan(&n)) // takes the snapshot
	_, err = SetPrice(t.Context(), g, g.dialect, Price{"book", 3, 3})
	must(t, err)
	stored, err := SetPrice(t.Context(), tx, g.dialect, Price{"book", 2, 2})
	if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "40001" {
		t.Errorf("%+v, %v", stored, err)
	}
}
