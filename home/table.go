package home

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// table is a table whose rows belong to operations. Its first two columns are scope and key.
type table struct {
	name    string
	columns []string
}

// tables are the tables whose rows move with a tenant.
var tables = []table{
	{"once_operation", strings.Fields("scope KEY state fence claim fingerprint status kind head body request point calling data lease_until since expires_at trace name")},
	{"once_saga_due", strings.Fields("scope KEY due_at name")},
}

// tables returns the tables that exist in a region.
func (m Mover) tables(ctx context.Context, region string) (exist []table, err error) {
	for _, of := range tables {
		err := m.pool(region).query(ctx, "select 1 from "+of.name+" where 1 = 0", nil, nil)
		switch {
		case err == nil:
			exist = append(exist, of)
		case !errors.Is(err, store.ErrNotMigrated):
			return nil, err
		}
	}
	return exist, nil
}

// each calls fn for each table until fn returns an error.
func each(list []table, fn func(of table) error) error {
	for _, of := range list {
		if err := fn(of); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the rows of a tenant from the table.
func (of table) remove(ctx context.Context, t tx, tenant string) error {
	where, args := "where 1 = 0", []any(nil)
	for _, s := range spansOf(tenant) {
		where, args = where+" or scope >= ? and scope < ?", append(args, s.from, s.before)
	}
	return t.exec(ctx, 0, "delete from "+of.name+" "+where, args...)
}

// copy copies the rows of a tenant. No region owns the tenant meanwhile, so nothing writes these rows.
func (of table) copy(ctx context.Context, from, to tx, tenant string) error {
	for _, s := range spansOf(tenant) {
		if err := of.copySpan(ctx, from, to, s); err != nil {
			return err
		}
	}
	return nil
}

// page is how many rows are read and written at a time. It is small, because a row may be large.
const page = 20

func (of table) copySpan(ctx context.Context, from, to tx, s span) error {
	columns := strings.Join(of.columns, ", ")
	row := "(?" + strings.Repeat(", ?", len(of.columns)-1) + ")"
	for scope, key := s.from, ""; ; {
		var values []any
		n := 0
		err := from.query(ctx, fmt.Sprintf("select %s from %s where (scope > ? or scope = ? and KEY > ?) and scope < ? order by scope, KEY limit %d", columns, of.name, page),
			[]any{scope, scope, key, s.before}, func(r sqlplane.Row) error {
				read := make([]any, len(of.columns))
				into := make([]any, len(read))
				for i := range read {
					into[i] = &read[i]
				}
				err := r.Scan(into...)
				values, n = append(values, read...), n+1
				return err
			})
		if err != nil || n == 0 {
			return err
		}
		if err := to.exec(ctx, n, "insert into "+of.name+" ("+columns+") values "+row+strings.Repeat(", "+row, n-1), values...); err != nil {
			return err
		}
		last := values[len(values)-len(of.columns):]
		scope, key = fmt.Sprint(last[0]), fmt.Sprint(last[1])
	}
}

// tx runs statements that are written as [dialect.Text] says.
type tx struct {
	r sqlplane.Runner
	d sqlplane.Dialect
}

func (m Mover) pool(region string) tx {
	return tx{m.Regions[region].Pool(), m.Regions[region].Dialect()}
}

// within runs fn in a transaction of a region.
func (m Mover) within(ctx context.Context, region string, fn func(t tx) error) error {
	db := m.Regions[region]
	return db.Within(ctx, store.ReadCommitted, func(_ context.Context, r sqlplane.Runner) error { return fn(tx{r, db.Dialect()}) })
}

// withinBoth runs fn in a transaction of each of two regions. All moves begin the two transactions in the order of the names: otherwise two moves in
// opposite directions would wait for each other, because an SQLite file has only one writer.
func (m Mover) withinBoth(ctx context.Context, from, to string, fn func(source, target tx) error) error {
	if from < to {
		return m.within(ctx, from, func(source tx) error {
			return m.within(ctx, to, func(target tx) error { return fn(source, target) })
		})
	}
	return m.within(ctx, to, func(target tx) error {
		return m.within(ctx, from, func(source tx) error { return fn(source, target) })
	})
}

var errOvertaken = errors.New("home: another move has changed the tenant at the same time. Try: once home show, and then move the tenant again")

// exec runs a statement. If rows is not 0, the statement must affect exactly that many rows.
func (t tx) exec(ctx context.Context, rows int, query string, args ...any) error {
	_, err := t.r.Exec(ctx, store.Statement{SQL: dialect.Text(t.d, query), Args: args, Rows: rows})
	if errors.Is(err, store.ErrRows) {
		return errOvertaken
	}
	return err
}

func (t tx) query(ctx context.Context, query string, args []any, each func(sqlplane.Row) error) error {
	return t.r.Query(ctx, store.Statement{SQL: dialect.Text(t.d, query), Args: args}, each)
}

// mustFind returns an error unless the query returns a row.
func (t tx) mustFind(ctx context.Context, query string, args ...any) error {
	found := false
	err := t.query(ctx, query, args, func(sqlplane.Row) error { found = true; return nil })
	if err == nil && !found {
		err = errOvertaken
	}
	return err
}
