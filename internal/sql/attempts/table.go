// Package attempts contains the table of the attempt log for all databases. Package attemptlog writes it and sweeps it.
package attempts

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Table is the table once_attempt of a database. Its methods can be called concurrently.
type Table struct {
	db      sqlplane.Database
	inserts [manyRows + 1]func() string // the insert statements, by the number of rows; not used on PostgreSQL
	sweep   string
}

// These are the numbers of rows of one insert, where each value is an argument. The SQLite driver needs more time for each
// argument of a long statement, but on a server each statement costs a round trip. The rest of a long list is inserted
// with statements of few rows, so that only two texts are used.
const (
	manyRows = 256 // on MySQL
	fewRows  = 32
)

// New returns the table of db.
func New(db sqlplane.Database) *Table {
	d := db.Dialect()
	t := &Table{db: db, sweep: dialect.Text(d, sweep[d])}
	for rows := range t.inserts {
		t.inserts[rows] = sync.OnceValue(func() string { return insertText(d, rows) })
	}
	return t
}

// Write writes list in one transaction. If an attempt with the same ID already exists, it stays unchanged. So the caller can
// write the same list again after an error, which may be a lost answer.
func (t *Table) Write(ctx context.Context, list []Attempt) error {
	switch {
	case len(list) == 0:
		return nil
	case t.db.Dialect() == sqlplane.PostgreSQL:
		_, err := t.db.Pool().Exec(ctx, store.Statement{SQL: insertArrays, Args: arrays(list)})
		return err
	case t.rows(list) == len(list):
		return t.insert(ctx, t.db.Pool(), list)
	}
	return t.db.Within(ctx, store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
		for rest := list; len(rest) > 0; {
			n := t.rows(rest)
			if err := t.insert(ctx, r, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
}

// rows returns how many attempts of list the next statement inserts.
func (t *Table) rows(list []Attempt) int {
	if t.db.Dialect() == sqlplane.MySQL && len(list) >= manyRows {
		return manyRows
	}
	return min(len(list), fewRows)
}

// insert inserts attempts with one statement. Their number comes from rows.
func (t *Table) insert(ctx context.Context, r sqlplane.Runner, list []Attempt) error {
	args := make([]any, 0, 20*len(list))
	for i := range list {
		args = append(args, list[i].values()...)
	}
	_, err := r.Exec(ctx, store.Statement{SQL: t.inserts[len(list)](), Args: args})
	return err
}

// insertText returns the statement that inserts this number of rows.
func insertText(d sqlplane.Dialect, rows int) string {
	const row = `, (?, ?, ?, AGO(?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	return dialect.Text(d, `insert into once_attempt (`+columns+`) values`+strings.TrimPrefix(strings.Repeat(row, rows), `,`)+` KEEP(id)`)
}

// Sweep deletes at most limit attempts that are older than keep, the oldest first, by the clock of the database. It returns
// the number of deleted attempts.
func (t *Table) Sweep(ctx context.Context, keep time.Duration, limit int) (int, error) {
	n, err := t.db.Pool().Exec(ctx, store.Statement{SQL: t.sweep, Args: []any{keep.Microseconds(), limit}})
	return int(n), err
}

// sweep deletes attempts by age. Its arguments are the age in microseconds and the largest number of rows. On PostgreSQL,
// processes that sweep at the same time do not wait for each other.
var sweep = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: `with old as (
  select key_hash, id from once_attempt where at < AGO(?) order by at limit ? FOR UPDATE SKIP LOCKED)
 delete from once_attempt a using old where a.key_hash = old.key_hash and a.id = old.id`,
	sqlplane.SQLite: `delete from once_attempt where (key_hash, id) in (select key_hash, id from once_attempt where at < AGO(?) order by at limit ?)`,
	sqlplane.MySQL:  `delete from once_attempt where at < AGO(?) order by at limit ?`,
}
