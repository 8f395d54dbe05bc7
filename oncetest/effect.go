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

// table is a table whose rows are effects.
type table struct {
	name    string // as it is written in SQL
	shown   string
	numbers []string // columns with numbers that are no keys
}

// messages is the table of an outbox, of which the rows count only.
const messages = "once_outbox"

// numbersOf are the queries for the tables of a database and their columns with numbers that are no keys: schema, table, column or "".
var numbersOf = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: inSchema("t.table_schema not in ('pg_catalog', 'information_schema')",
		"c.is_identity = 'NO' and coalesce(c.column_default, '') not like 'nextval(%'"),
	sqlplane.MySQL: inSchema("t.table_schema = database()", "c.extra not like '%auto_increment%'"),
	sqlplane.SQLite: `select '', m.name, coalesce((select p.name where p.pk = 0
 and (p.type like '%int%' or p.type like '%real%' or p.type like '%num%' or p.type like '%dec%' or p.type like '%floa%' or p.type like '%doub%')
 and p.name not in (select f."from" from pragma_foreign_key_list(m.name) f)
 and p.name not in (select i.name from pragma_index_list(m.name) l, pragma_index_info(l.name) i where l."unique")), '')
 from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and m.name not like 'sqlite\_%' escape '\'`,
}

func inSchema(schema, noKey string) string {
	return `select t.table_schema, t.table_name, coalesce(c.column_name, '') from information_schema.tables t
 left join information_schema.columns c on c.table_schema = t.table_schema and c.table_name = t.table_name and ` + noKey + `
 and c.data_type in ('tinyint', 'smallint', 'mediumint', 'int', 'integer', 'bigint', 'decimal', 'numeric', 'real', 'float', 'double', 'double precision')
 and not exists (select 1 from information_schema.key_column_usage k where k.table_schema = c.table_schema and k.table_name = c.table_name and k.column_name = c.column_name)
 where t.table_type = 'BASE TABLE' and ` + schema
}

// tablesOf returns the tables of a database in which effects are counted.
func tablesOf(ctx context.Context, db sqlplane.Database, ignored []string) (list []table, err error) {
	found := map[string]int{}
	err = db.Pool().Query(ctx, store.Statement{SQL: numbersOf[db.Dialect()]}, func(row sqlplane.Row) error {
		var schema, name, column string
		if err := row.Scan(&schema, &name, &column); err != nil {
			return err
		}
		shown := name
		if db.Dialect() == sqlplane.PostgreSQL && schema != "public" {
			shown = schema + "." + name
		}
		if strings.HasPrefix(name, "once_") && name != messages || slices.Contains(ignored, shown) {
			return nil
		}
		at, known := found[shown]
		if !known {
			at = len(list)
			found[shown] = at
			full := quoted(db.Dialect(), name)
			if schema != "" {
				full = quoted(db.Dialect(), schema) + "." + full
			}
			list = append(list, table{name: full, shown: shown})
		}
		if column != "" && name != messages && !slices.Contains(ignored, shown+"."+column) {
			list[at].numbers = append(list[at].numbers, column)
		}
		return nil
	})
	return list, err
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

// String writes effects for people.
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
