package oncetest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// table is a table in which effects are counted.
type table struct {
	name    string   // as it is written in SQL
	shown   string   // in messages
	numbers []string // columns with numbers that are no keys
}

// messages is the table of an outbox. Only its rows are effects.
const messages = "once_outbox"

// numbersOf are the queries for the tables of a database and their columns with numbers: schema, table, column or "".
var numbersOf = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: numbersIn("table_schema not in ('pg_catalog', 'information_schema')", "is_identity = 'NO' and coalesce(column_default, '') not like 'nextval(%'"),
	sqlplane.MySQL:      numbersIn("table_schema = database()", "extra not like '%auto_increment%'"),
	sqlplane.SQLite: `select '', m.name, '' from sqlite_master m where m.type = 'table' and m.name not like 'sqlite\_%' escape '\'
 union all select '', m.name, p.name from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and m.name not like 'sqlite\_%' escape '\'
 and (p.type like '%int%' or p.type like '%real%' or p.type like '%num%' or p.type like '%dec%' or p.type like '%floa%' or p.type like '%double%')`,
}

// keysOf are the queries for the columns that are keys: in primary and unique keys, and in those of other tables. In MySQL a query for both at once takes minutes.
var keysOf = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `select table_schema, table_name, column_name from information_schema.key_column_usage`,
	sqlplane.MySQL:      `select table_schema, table_name, column_name from information_schema.key_column_usage where table_schema = database()`,
	sqlplane.SQLite: `select '', m.name, p.name from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and p.pk > 0
 union select '', m.name, f."from" from sqlite_master m, pragma_foreign_key_list(m.name) f where m.type = 'table'
 union select '', m.name, i.name from sqlite_master m, pragma_index_list(m.name) l, pragma_index_info(l.name) i where m.type = 'table' and l."unique"`,
}

func numbersIn(schema, noKey string) string {
	return `select table_schema, table_name, '' from information_schema.tables where table_type = 'BASE TABLE' and ` + schema +
		` union all select table_schema, table_name, column_name from information_schema.columns where ` + schema + ` and ` + noKey + `
 and data_type in ('tinyint', 'smallint', 'mediumint', 'int', 'integer', 'bigint', 'decimal', 'numeric', 'real', 'float', 'double', 'double precision')`
}

// column is a column of a table; name is "" for the table itself.
type column struct{ schema, table, name string }

func columnsOf(ctx context.Context, db sqlplane.Database, query string) (list []column, err error) {
	err = db.Pool().Query(ctx, store.Statement{SQL: query}, func(row sqlplane.Row) error {
		var c column
		err := row.Scan(&c.schema, &c.table, &c.name)
		list = append(list, c)
		return err
	})
	return list, err
}

// tablesOf returns the tables of a database in which effects are counted.
func tablesOf(ctx context.Context, db sqlplane.Database, ignored []string) (list []table, err error) {
	d := db.Dialect()
	keys, err := columnsOf(ctx, db, keysOf[d])
	if err != nil {
		return nil, err
	}
	columns, err := columnsOf(ctx, db, numbersOf[d])
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, c := range columns {
		shown := c.table
		if d == sqlplane.PostgreSQL && c.schema != "public" {
			shown = c.schema + "." + c.table
		}
		at, known := found[shown]
		switch {
		case strings.HasPrefix(c.table, "once_") && c.table != messages, slices.Contains(ignored, shown):
		case c.name == "":
			full := quoted(d, c.table)
			if c.schema != "" {
				full = quoted(d, c.schema) + "." + full
			}
			found[shown] = len(list)
			list = append(list, table{name: full, shown: shown})
		case known && c.table != messages && !slices.Contains(keys, c) && !slices.Contains(ignored, shown+"."+c.name):
			list[at].numbers = append(list[at].numbers, c.name)
		}
	}
	return list, nil
}

func quoted(d sqlplane.Dialect, name string) string {
	quote := `"`
	if d == sqlplane.MySQL {
		quote = "`"
	}
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

// effects are numbers by their names.
type effects map[string]float64

// readTable adds the effects in a table to e.
func (e effects) readTable(ctx context.Context, db sqlplane.Database, t table) error {
	var query strings.Builder
	query.WriteString("select count(*)")
	for _, column := range t.numbers {
		sum := "coalesce(sum(" + quoted(db.Dialect(), column) + "), 0)"
		if db.Dialect() == sqlplane.PostgreSQL {
			sum += "::double precision"
		} else {
			sum += " + 0.0e0"
		}
		query.WriteString(", " + sum)
	}
	query.WriteString(" from " + t.name)
	var rows int64
	sums := make([]float64, len(t.numbers))
	into := []any{&rows}
	for i := range sums {
		into = append(into, &sums[i])
	}
	err := db.Pool().Query(ctx, store.Statement{SQL: query.String()}, func(row sqlplane.Row) error { return row.Scan(into...) })
	e[t.shown] += float64(rows)
	for i, column := range t.numbers {
		e[t.shown+"."+column] += sums[i]
	}
	return err
}

// since returns what has been added to before, without what has not changed.
func (e effects) since(before effects) effects {
	added := effects{}
	for name, n := range e {
		if d := n - before[name]; math.Abs(d) > 1e-6 {
			added[name] = math.Round(d*1e6) / 1e6
		}
	}
	return added
}

// equal reports whether two requests have had the same effects.
func (e effects) equal(other effects) bool { return maps.Equal(e, other) }

// String lists effects.
func (e effects) String() string {
	if len(e) == 0 {
		return "none"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		list = append(list, fmt.Sprintf("%s %+g", name, e[name]))
	}
	return strings.Join(list, ", ")
}

// count counts effects.
func (s *suite) count() effects {
	s.tb.Helper()
	if s.process.isDead() { // it has hung; its pool is gone
		s.next()
	}
	ctx, cancel := context.WithTimeout(s.tb.Context(), maxCall)
	defer cancel()
	e := effects{}
	var err error
	for range 10 { // connections of the pool may be broken
		if e, err = s.countTables(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		hint := ""
		if ctx.Err() != nil {
			hint = ". Try: give back each connection of the pool, also after an error"
		}
		s.hangs()
		s.now.Fatalf("oncetest: the effects cannot be counted: %v%s", err, hint)
	}
	for name, counter := range s.counters {
		e[name] = float64(counter())
	}
	for i, p := range s.providers {
		name := "effects at the provider"
		if i > 0 {
			name += fmt.Sprint(" ", i+1)
		}
		e[name] = float64(p.Effects())
	}
	maps.DeleteFunc(e, func(name string, _ float64) bool { return s.unstable[name] })
	return e
}

func (s *suite) countTables(ctx context.Context) (effects, error) {
	e, db := effects{}, s.database
	if db == nil && len(s.process.databases) > 0 {
		db = s.process.databases[0]
	}
	if db == nil {
		return e, nil
	}
	if s.tables == nil {
		tables, err := tablesOf(ctx, db, s.ignore)
		if err != nil {
			return nil, err
		}
		s.tables = &tables
		for _, t := range tables {
			for _, column := range t.numbers {
				s.sums[t.shown+"."+column] = true
			}
		}
	}
	for _, t := range *s.tables {
		if err := e.readTable(ctx, db, t); err != nil {
			return nil, err
		}
	}
	return e, nil
}
