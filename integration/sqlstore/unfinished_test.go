package sqlstore

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
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
				rows, err := c.db.Query("explain query plan "+text, "a", "b", 2, true, "", 0)
				if err != nil {
					t.Fatal(err)
				}
				var plan []string
				for rows.Next() {
					plan = append(plan, "")
					if err := rows.Scan(new(int), new(int), new(int), &plan[len(plan)-1]); err != nil {
						t.Fatal(err)
					}
				}
				if all := strings.Join(plan, "\n"); rows.Err() != nil || !strings.Contains(all, "SEARCH once_operation USING INDEX once_operation_unfinished (scope>?)") && !strings.Contains(all, "SEARCH once_operation USING INDEX once_operation_unfinished ((scope,key)>(?,?))") {
					t.Errorf("the plan is %s, %v", all, rows.Err())
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
				"the doctor": func() error {
					some := dialect.Text(sqlplane.MySQL, "select count(*) from "+dialect.Unfinished(sqlplane.MySQL, "scope, KEY, state, since, lease_until", 9))
					return db.QueryRowContext(t.Context(), some).Scan(new(int))
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

// TestAPageReadsNoMore than its limit, although thousands of operations are unfinished and it lists one of them.
func TestAPageReadsNoMore(t *testing.T) {
	testenv.Both(t)
	const limit, held = 200, 4900
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		db.SetMaxOpenConns(1)
		digits := "(select 0 as d" + strings.Join(union(70), "") + ")"
		many := map[string]string{
			"PostgreSQL": "select 'held', 'k' || (1000 + a.d * 70 + b.d), 1, 1, '\\x01', now(), now() + interval '1 day'",
			"SQLite":     "select 'held', 'k' || (1000 + a.d * 70 + b.d), 1, 1, x'01', 0, 4102444800000",
			"MySQL":      "select 'held', concat('k', 1000 + a.d * 70 + b.d), 1, 1, '', 0, 4102444800000",
		}
		many["MariaDB"] = many["MySQL"]
		run(t, db, spelled(db, "insert into once_operation (scope, key , state, fence, claim, since, lease_until) "+many[path(t)]+" from "+digits+" a cross join "+digits+" b"))
		due := store.Change{ID: store.ID{Scope: "waits", Key: "k"}, Next: store.Record{State: store.StateWaiting, Fence: 1, Nonce: []byte("0123456789abcdef"), Name: "order"}}
		swap(t, s, due)
		if path(t) == "PostgreSQL" {
			run(t, db, "analyze once_operation")
		}
		if path(t) == "MariaDB" || path(t) == "MySQL" { // that of PostgreSQL is counted by TestManyRows
			run(t, db, "flush status")
			p, err := operate.New(s, operate.Config{}).Keys.List(t.Context(), operate.KeyFilter{State: "running", Window: operate.Window{Limit: 50}, Most: 100})
			if read := rowsRead(t, db); err != nil || len(p.Items) != 50 || read > 4*limit {
				t.Errorf("a list of 50 reads %d rows: %v", read, err)
			}
			run(t, db, "flush status")
			v, err := operate.New(s, operate.Config{}).Overview(t.Context())
			if read := rowsRead(t, db); err != nil && !sqlguard.IsMissing(err) || v.Running.Number == 0 || read > 2000 {
				t.Errorf("the overview reads %d rows: %+v, %v", read, v, err)
			}
		}
		for what, page := range map[string]upkeep.Listing{"due": {Due: true}, "of a name": {Name: "order"}} {
			page.Limit = limit
			pages, most, found := 0, 0, 0
			for more := true; more; more = !page.After.IsZero() {
				pages++
				rows := 0
				switch path(t) {
				case "MariaDB", "MySQL":
					run(t, db, "flush status")
				case "PostgreSQL":
					rows = explained(t, db, "explain (analyze, format json) "+pgsql.Unfinished, page.After.Scope, page.After.Key, page.Limit, page.Due, page.Name, 0)
				}
				list, next, err := s.Unfinished(t.Context(), page)
				if err != nil {
					t.Fatal(err)
				}
				if rows == 0 && path(t) != "SQLite" { // whose plan has its own test
					rows = rowsRead(t, db)
				}
				most, found, page.After = max(most, rows), found+len(list), next
			}
			t.Logf("%s: %d pages, at most %d rows", what, pages, most)
			if found != 1 || pages != held/limit+1 {
				t.Errorf("%s: %d found on %d pages", what, found, pages)
			}
			if most > 8*limit || most == 0 && path(t) != "SQLite" { // MariaDB and MySQL count the rows of tables that they make for a statement, too
				t.Errorf("%s: %d rows were read for a page of %d", what, most, limit)
			}
		}
	})
}

// union are the numbers from 1 to n-1, as rows behind another one.
func union(n int) (rows []string) {
	for d := 1; d < n; d++ {
		rows = append(rows, fmt.Sprint(" union all select ", d))
	}
	return rows
}

// explained is how many rows of the operations a statement of PostgreSQL has read.
func explained(t *testing.T, db *sql.DB, explain string, args ...any) int {
	t.Helper()
	type node struct {
		Relation string  `json:"Relation Name"`          //nolint:tagliatelle // the name of PostgreSQL
		Rows     float64 `json:"Actual Rows"`            //nolint:tagliatelle // as above
		Removed  float64 `json:"Rows Removed by Filter"` //nolint:tagliatelle // as above
		Loops    float64 `json:"Actual Loops"`           //nolint:tagliatelle // as above
		Plans    []json.RawMessage
	}
	var text []byte
	if err := db.QueryRowContext(t.Context(), explain, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan json.RawMessage }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	read := 0.0
	for todo := []json.RawMessage{plans[0].Plan}; len(todo) > 0; todo = todo[1:] {
		var n node
		if err := json.Unmarshal(todo[0], &n); err != nil {
			t.Fatal(err)
		}
		if n.Relation == "once_operation" {
			read += (n.Rows + n.Removed) * n.Loops
		}
		todo = append(todo, n.Plans...)
	}
	return int(read)
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
