package home

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/home"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestMoveTakesAllColumns: a move takes along all columns of a table, also those that a later migration adds. Each row of a tenant is in the other region as it was.
func TestMoveTakesAllColumns(t *testing.T) {
	dbs := map[string]sqlplane.Database{}
	for _, name := range []string{"eu", "us"} {
		db, _ := harness.OpenSQL(t, harness.Migrated(t, harness.SQLite, sets))
		dbs[name] = db
	}
	m := home.Mover{Regions: dbs}
	must(t, m.Move(t.Context(), "acme", "eu"))
	columns := map[string][]string{}
	for _, table := range []string{"once_operation", "once_saga_due"} {
		var names, values []string
		must(t, dbs["eu"].Pool().Query(t.Context(), store.Statement{SQL: "select name from pragma_table_info('" + table + "')"}, func(row sqlplane.Row) error {
			var name string
			err := row.Scan(&name)
			names = append(names, name)
			return err
		}))
		for i, name := range names {
			values = append(values, map[string]string{"scope": "'saga/acme'", "key": "'k" + strings.Repeat("x", i%3) + "'"}[name])
			if values[i] == "" {
				values[i] = "1" + strings.Repeat("0", i%5)
			}
		}
		columns[table] = names
		for n := range 45 { // more than two pages
			row := slices.Clone(values)
			row[slices.Index(names, "key")] = "'k" + strings.Repeat("x", n) + "'"
			harness.Exec(t, dbs["eu"], "insert into "+table+" ("+strings.Join(names, ", ")+") values ("+strings.Join(row, ", ")+")")
		}
	}
	dump := func(region, table string) (rows []string) {
		text := "select coalesce(quote(" + strings.Join(columns[table], "), '') || coalesce(quote(") + "), '') from " + table + " order by key"
		must(t, dbs[region].Pool().Query(t.Context(), store.Statement{SQL: text}, func(row sqlplane.Row) error {
			var line string
			err := row.Scan(&line)
			rows = append(rows, line)
			return err
		}))
		return rows
	}
	before := map[string][]string{}
	for table := range columns {
		before[table] = dump("eu", table)
	}
	must(t, m.Move(t.Context(), "acme", "us"))
	for table, rows := range before {
		if got := dump("us", table); len(rows) != 45 || !slices.Equal(got, rows) {
			t.Errorf("%s: %d rows were %q, and %d are %q", table, len(rows), rows[:1], len(got), got[:min(1, len(got))])
		}
		if left := dump("eu", table); len(left) > 0 {
			t.Errorf("%s: %d rows were left behind", table, len(left))
		}
	}
}

// lagging is a database whose pool reads from a standby that does not have the operations yet.
type lagging struct{ sqlplane.Database }

func (d lagging) Pool() sqlplane.Runner { return laggingPool{d.Database.Pool()} }

type laggingPool struct{ sqlplane.Runner }

func (p laggingPool) Query(ctx context.Context, s store.Statement, each func(sqlplane.Row) error) error {
	if strings.Contains(s.SQL, "from once_operation") {
		return nil
	}
	return p.Runner.Query(ctx, s, each)
}

// TestMoveLosesNothingBehindAStandby: a region whose pool reads from a standby that lags gives all its rows to the other region. They are read where
// they are deleted afterwards.
func TestMoveLosesNothingBehindAStandby(t *testing.T) {
	dbs := map[string]sqlplane.Database{}
	for _, name := range []string{"eu", "us"} {
		db, _ := harness.OpenSQL(t, harness.Migrated(t, harness.SQLite, sets))
		dbs[name] = db
	}
	m := home.Mover{Regions: map[string]sqlplane.Database{"eu": lagging{dbs["eu"]}, "us": dbs["us"]}}
	must(t, m.Move(t.Context(), "acme", "eu"))
	harness.Exec(t, dbs["eu"], "insert into once_operation (scope, key, claim, fingerprint, since, expires_at) values ('acme', 'k', x'01', x'01', 0, 0)")
	must(t, m.Move(t.Context(), "acme", "us"))
	rows := 0
	must(t, dbs["us"].Pool().Query(t.Context(), store.Statement{SQL: "select 1 from once_operation where scope = 'acme'"}, func(sqlplane.Row) error { rows++; return nil }))
	if rows != 1 {
		t.Errorf("%d operations are in the other region, want 1", rows)
	}
}

// TestMovesInOppositeDirections: two tenants move at the same time, each into the region that the other one leaves. An SQLite file has one writer,
// so moves that began their two transactions in different orders would wait for each other for ever.
func TestMovesInOppositeDirections(t *testing.T) {
	dbs := map[string]sqlplane.Database{}
	for _, name := range []string{"eu", "us"} {
		db, _ := harness.OpenSQL(t, harness.Migrated(t, harness.SQLite, sets))
		dbs[name] = db
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	m := home.Mover{Regions: dbs}
	at := map[string]string{"acme": "eu", "globex": "us"}
	for tenant, region := range at {
		must(t, m.Move(ctx, tenant, region))
	}
	for range 30 {
		errs := make(chan error)
		for tenant, region := range at {
			to := map[string]string{"eu": "us", "us": "eu"}[region]
			at[tenant] = to
			go func() { errs <- m.Move(ctx, tenant, to) }()
		}
		must(t, errors.Join(<-errs, <-errs))
	}
}
