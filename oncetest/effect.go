package oncetest

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// table is a table in which effects are counted.
type table struct {
	name    string   // as it is written in SQL
	shown   string   // the name in messages
	numbers []column // columns with numbers that are not keys
}

// messages is the table of an outbox. Only its number of rows is an effect.
const messages = "once_outbox"

// numbersOf holds the queries for the tables of a database and their columns with numbers. A row has the schema, the table, the column or "", and the type. In
// SQLite, columns without a type may have numbers as well.
var numbersOf = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: numbersIn("table_schema not in ('pg_catalog', 'information_schema')", "is_identity = 'NO' and coalesce(column_default, '') not like 'nextval(%'"),
	sqlplane.MySQL:      numbersIn("table_schema = database()", "extra not like '%auto_increment%'"),
	sqlplane.SQLite: `select '', m.name, '', '' from sqlite_master m where m.type = 'table' and m.name not like 'sqlite\_%' escape '\'
 union all select '', m.name, p.name, 'real' from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and m.name not like 'sqlite\_%' escape '\'
 and (p.type = '' or p.type like '%int%' or p.type like '%real%' or p.type like '%num%' or p.type like '%dec%' or p.type like '%floa%' or p.type like '%double%')`,
}

// keysOf holds the queries for the columns that are keys: in a primary key, in a reference to another table, or alone in a unique key. A balance may be part of a
// larger unique key. MySQL has separate queries, because one query for all kinds takes minutes there.
var keysOf = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `select n.nspname::text, r.relname::text, a.attname::text, '' from pg_constraint c join pg_class r on r.oid = c.conrelid
 join pg_namespace n on n.oid = r.relnamespace join pg_attribute a on a.attrelid = r.oid and a.attnum = any(c.conkey)
 where c.contype in ('p', 'f') or c.contype = 'u' and cardinality(c.conkey) = 1`,
	sqlplane.MySQL: `select table_schema, table_name, column_name, '' from information_schema.key_column_usage
 where table_schema = database() and (constraint_name = 'PRIMARY' or referenced_table_name is not null)
 union select table_schema, table_name, min(column_name), '' from information_schema.key_column_usage
 where table_schema = database() group by table_schema, table_name, constraint_name having count(*) = 1`,
	sqlplane.SQLite: `select '', m.name, p.name, '' from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and p.pk > 0
 union select '', m.name, f."from", '' from sqlite_master m, pragma_foreign_key_list(m.name) f where m.type = 'table'
 union select '', m.name, i.name, '' from sqlite_master m, pragma_index_list(m.name) l, pragma_index_info(l.name) i where m.type = 'table' and l."unique"
 and i.name is not null and (select count(*) from pragma_index_info(l.name)) = 1`,
}

func numbersIn(schema, noKey string) string {
	return `select table_schema, table_name, '', '' from information_schema.tables where table_type = 'BASE TABLE' and ` + schema +
		` union all select table_schema, table_name, column_name, data_type from information_schema.columns where ` + schema + ` and ` + noKey + `
 and data_type in ('tinyint', 'smallint', 'mediumint', 'int', 'integer', 'bigint', 'decimal', 'numeric', 'real', 'float', 'double', 'double precision')`
}

// column is a column of a table; name is "" for the table itself.
type column struct{ schema, table, name, kind string }

// isFloat reports whether sums of the column are inexact.
func (c column) isFloat() bool {
	return slices.Contains([]string{"real", "float", "double", "double precision"}, c.kind)
}

func columnsOf(ctx context.Context, db sqlplane.Database, query string) (list []column, err error) {
	err = db.Pool().Query(ctx, store.Statement{SQL: query}, func(row sqlplane.Row) error {
		var c column
		err := row.Scan(&c.schema, &c.table, &c.name, &c.kind)
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
		case known && c.table != messages && !slices.Contains(keys, column{c.schema, c.table, c.name, ""}) && !slices.Contains(ignored, shown+"."+c.name):
			list[at].numbers = append(list[at].numbers, c)
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

// effects are numbers of effects, by their names.
type effects map[string]*big.Rat

func (e effects) add(name string, n *big.Rat) {
	if e[name] == nil {
		e[name] = new(big.Rat)
	}
	e[name].Add(e[name], n)
}

// sumOf holds the expression for the sum of a column as text: one number, or several numbers to add up. Sums are exact, unless the column is of floating point.
var sumOf = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "coalesce(sum(COLUMN), 0)::text",
	sqlplane.MySQL:      "cast(coalesce(sum(COLUMN), 0) as char)",
	// SQLite fails if a sum of integers does not fit into 64 bits, so the sum is split.
	sqlplane.SQLite: `coalesce(sum(case typeof(COLUMN) when 'integer' then COLUMN / 1000000000 end), 0) || '000000000 '
 || coalesce(sum(case typeof(COLUMN) when 'integer' then COLUMN % 1000000000 end), 0) || ' '
 || printf('%!.17g', total(case typeof(COLUMN) when 'real' then COLUMN end))`,
}

// readTable adds the effects in a table to e.
func (e effects) readTable(ctx context.Context, db sqlplane.Database, t table) error {
	var query strings.Builder
	query.WriteString("select count(*)")
	for _, c := range t.numbers {
		query.WriteString(", " + strings.ReplaceAll(sumOf[db.Dialect()], "COLUMN", quoted(db.Dialect(), c.name)))
	}
	var rows int64
	sums := make([]string, len(t.numbers))
	into := []any{&rows}
	for i := range sums {
		into = append(into, &sums[i])
	}
	err := db.Pool().Query(ctx, store.Statement{SQL: query.String() + " from " + t.name}, func(row sqlplane.Row) error { return row.Scan(into...) })
	e.add(t.shown, big.NewRat(rows, 1))
	for i, c := range t.numbers {
		for text := range strings.FieldsSeq(sums[i]) {
			if n, ok := new(big.Rat).SetString(text); ok { // leaves out Infinity and NaN
				e.add(t.shown+"."+c.name, n)
			}
		}
	}
	return err
}

// since counts the effects, and returns the differences from before.
func (s *suite) since(before effects) effects {
	s.tb.Helper()
	added := effects{}
	for name, n := range s.count() {
		d := new(big.Rat).Set(n)
		if b := before[name]; b != nil {
			d.Sub(d, b)
		}
		if s.sums[name] { // floating point: sums differ in their last digits
			d.SetString(d.FloatString(6))
		}
		if d.Sign() != 0 {
			added[name] = d
		}
	}
	return added
}

// equal reports whether two requests have had the same effects.
func (e effects) equal(other effects) bool {
	return maps.EqualFunc(e, other, func(a, b *big.Rat) bool { return a.Cmp(b) == 0 })
}

// equalIn reports the same for one name.
func (e effects) equalIn(name string, other effects) bool {
	a, b := e[name], other[name]
	return a == b || a != nil && b != nil && a.Cmp(b) == 0
}

// within reports whether no effect in e is larger than in all, or has another sign. A debit is negative.
func (e effects) within(all effects) bool {
	for name, n := range e {
		most := all[name]
		if most == nil || n.Sign() != most.Sign() || new(big.Rat).Abs(n).Cmp(new(big.Rat).Abs(most)) > 0 {
			return false
		}
	}
	return true
}

// String lists effects.
func (e effects) String() string {
	if len(e) == 0 {
		return "none"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		text := e[name].FloatString(18)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		if e[name].Sign() > 0 {
			text = "+" + text
		}
		list = append(list, name+" "+text)
	}
	return strings.Join(list, ", ")
}

// count returns the numbers of all effects.
func (s *suite) count() effects {
	s.tb.Helper()
	if s.process.isDead() { // the process has hung, and its pool is closed
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
			hint = ". Try: release each connection to the pool, also after an error"
		}
		s.hangs()
		s.now.Fatalf("oncetest: the effects cannot be counted: %v%s", err, hint)
	}
	for name, counter := range s.counters {
		e.add(name, big.NewRat(int64(counter()), 1))
	}
	for i, p := range s.providers {
		name := "effects at the provider"
		if i > 0 {
			name += fmt.Sprint(" ", i+1)
		}
		e.add(name, big.NewRat(int64(p.Effects()), 1))
	}
	maps.DeleteFunc(e, func(name string, _ *big.Rat) bool { return s.unstable[name] })
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
			for _, c := range t.numbers {
				s.sums[t.shown+"."+c.name] = c.isFloat()
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
