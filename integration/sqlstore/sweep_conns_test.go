package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestSQLiteSweepSparesConnections: requests and sweepers, who wait for the same file, do
// not keep the last connection from each other, however few there are.
func TestSQLiteSweepSparesConnections(t *testing.T) {
	for _, most := range []int{1, 2, 3, 0} {
		for _, grouped := range []bool{false, true} {
			t.Run(fmt.Sprintf("most=%d,grouped=%v", most, grouped), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "few.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(30000)")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = db.Close() }()
				db.SetMaxOpenConns(most)
				if err := sqlstore.Migrate(ctx, db); err != nil {
					t.Fatal(err)
				}
				const rows, clients, each, sweepers = 300, 4, 5, 3
				run(t, db, fmt.Sprintf("insert into once_operation (scope, key, claim, since, expires_at) with recursive c(n) as (select 1 union all select n + 1 from c where n < %d) select 's', printf('k%%03d', n), cast(printf('%%04x', n) as blob), 0, 1000 + n from c", rows))
				s, err := sqlstore.New(ctx, db, sqlstore.Config{GroupCommit: grouped})
				if err != nil {
					t.Fatal(err)
				}
				engine := once.New[*sql.Tx](s, once.Config{})
				var all sync.WaitGroup
				var swept [sweepers]int
				for i := range swept {
					all.Go(func() {
						for more := true; more; {
							got, err := s.Sweep(ctx, upkeep.Sweep{Limit: 50})
							if err != nil {
								t.Error(err)
								return
							}
							swept[i] += got.Rows
							more = got.More
						}
					})
				}
				for c := range clients {
					all.Go(func() {
						for i := range each {
							op := once.Operation{Scope: "r", Key: fmt.Sprintf("c%d-%d", c, i), Fingerprint: once.FingerprintOf([]byte("x"))}
							if _, err := once.Do(ctx, engine, op, func(context.Context, *sql.Tx) (string, error) { return "", nil }); err != nil {
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				if n := swept[0] + swept[1] + swept[2]; n != rows {
					t.Errorf("%v swept of %d", swept, rows)
				}
				if n := count(t, db, "select count(*) from once_operation"); n != clients*each {
					t.Errorf("%d operations are left, want %d", n, clients*each)
				}
			})
		}
	}
}
