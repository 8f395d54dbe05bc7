package sqlstore

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestUnfinishedReadsNoTable: a page, and a gauge on MariaDB and MySQL, is read by an index, however much is done and kept for ever.
func TestUnfinishedReadsNoTable(t *testing.T) {
	testenv.Both(t)
	page := func(t *testing.T, s *sqlstore.Store) {
		t.Helper()
		list, _, err := s.Unfinished(t.Context(), upkeep.Listing{After: store.ID{Scope: "plan", Key: "running 3"}, Limit: 2})
		if err != nil || len(list) != 2 || list[0].Key != "running 4" || list[1].Key != "running 5" {
			t.Errorf("%+v, %v", list, err)
		}
	}
	fill := func(t *testing.T, s *sqlstore.Store, done string) {
		t.Helper()
		for i := range 300 {
			swap(t, s, finished(store.ID{Scope: "plan", Key: fmt.Sprint(done, i)}, 0))
		}
		for i := range 9 {
			swap(t, s, running(store.ID{Scope: "plan", Key: fmt.Sprint("running ", i)}, 0))
		}
	}
	t.Run("the plan of SQLite", func(t *testing.T) {
		newCrowd(t, t.TempDir(), sqlstore.Config{}, nil, func(c *crowd) {
			fill(t, c.s, "done ")
			c.spy.take()
			page(t, c.s)
			text := c.spy.log[0]
			for _, statistics := range []string{"select 1", "analyze"} { // without and with them
				c.exec(statistics)
				var id, parent, unused int
				var plan string
				if err := c.db.QueryRow("explain query plan "+text, "a", "b", 2, true, "", 0).Scan(&id, &parent, &unused, &plan); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(plan, "SEARCH once_operation USING INDEX once_operation_unfinished") {
					t.Errorf("the plan is %q", plan)
				}
			}
		})
	})
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		switch path(t) {
		case "PostgreSQL":
			fill(t, s, "done ")
			page(t, s)
			if _, err := db.ExecContext(t.Context(), "analyze once_operation"); err != nil {
				t.Fatal(err)
			}
			rows, err := db.QueryContext(t.Context(), "explain "+pgsql.Unfinished, "a", "b", 2, true, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = rows.Close() }()
			var plan []string
			for rows.Next() {
				plan = append(plan, "")
				if err := rows.Scan(&plan[len(plan)-1]); err != nil {
					t.Fatal(err)
				}
			}
			all := strings.Join(plan, "\n")
			if !strings.Contains(all, "using once_operation_unfinished") || strings.Contains(all, "Seq Scan") || strings.Contains(all, "Sort") {
				t.Errorf("the plan is %s", all)
			}
		case "MariaDB", "MySQL":
			fill(t, s, "running 4, done ") // in the middle of the page
			db.SetMaxOpenConns(1)
			for what, look := range map[string]func() error{
				"a page": func() error { page(t, s); return nil },
				"the gauges": func() error {
					b, err := s.Backlog(t.Context())
					if err == nil && b.Running.Number != 9 {
						err = fmt.Errorf("%+v", b)
					}
					return err
				},
				"the sagas": func() error {
					return s.Pool().Query(t.Context(), store.Statement{SQL: dialect.UnfinishedUnder(sqlplane.MySQL, "plan", "")}, func(sqlplane.Row) error { return nil })
				},
			} {
				if _, err := db.ExecContext(t.Context(), "flush status"); err != nil {
					t.Fatal(err)
				}
				if err := look(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if n := rowsRead(t, db); n == 0 || n > 60 {
					t.Errorf("%d rows were read for %s", n, what)
				}
			}
		}
	})
}

// rowsRead is how many rows the session of MariaDB or MySQL has read since FLUSH STATUS, with those of tables that it made for itself.
func rowsRead(t *testing.T, db *sql.DB) (read int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "show session status where variable_name in ('Handler_read_key', 'Handler_read_next', 'Handler_read_rnd_next', 'Handler_read_first')")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		read += n
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return read
}
