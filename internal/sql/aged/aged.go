// Package aged has an archive keep the old rows of a table, and deletes them behind it. A row is deleted only after the
// archive has it: who is killed in between leaves it in both, and it is archived again.
package aged

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Archive keeps rows, as (*archive.Writer).Write does. After nil they are safe.
type Archive = func(ctx context.Context, rows []upkeep.Expired) error

// Table is a table whose rows have a time. Its texts are such as package dialect takes.
type Table struct {
	Name    string
	Columns string // that Read scans: all of them
	At      string // the column of the time, which has an index
	Is      string // a condition with arguments that one row meets, such as "operation = ?"
	Read    func(row sqlplane.Row) (Row, error)
}

// Row is a row of a Table.
type Row struct {
	ID      store.ID  // by which the archive finds it
	At      time.Time // as Table.At has it
	Args    []any     // of Table.Is
	Columns any       // what becomes its JSON
	Bytes   int       // of its large columns
}

// A batch has at most so many rows, and one row more than so many bytes. The rows are in memory, and each is deleted by a
// statement of its own.
const (
	maxRows  = 500
	maxBytes = 8 << 20
)

var errFull = errors.New("the batch has enough bytes")

// Sweep archives some of the rows whose time is longer ago than keep, the oldest first, and deletes them. more says that there may be others.
// Rows that two sweepers have read are archived by both.
func Sweep(ctx context.Context, db sqlplane.Database, t Table, keep time.Duration, archive Archive) (rows int64, more bool, err error) {
	old := t.At + " < AGO(?)"
	var found []upkeep.Expired
	var deletes []store.Statement
	bytes := 0
	err = db.Pool().Query(ctx, statement(db, "select "+t.Columns+" from "+t.Name+" where "+old+" order by "+t.At+" limit ?", keep.Microseconds(), int64(maxRows)), func(row sqlplane.Row) error {
		r, err := t.Read(row)
		if err != nil {
			return err
		}
		columns, err := json.Marshal(r.Columns)
		if err != nil {
			return fmt.Errorf("row %q of %s: %w", r.ID.Key, t.Name, err)
		}
		found = append(found, upkeep.Expired{ID: r.ID, At: r.At.Add(keep), Table: t.Name, Row: columns})
		// The time is asked again: a row that has taken its place meanwhile is young.
		deletes = append(deletes, statement(db, "delete from "+t.Name+" where "+t.Is+" and "+old, append(r.Args, keep.Microseconds())...))
		if bytes += r.Bytes; bytes > maxBytes {
			return errFull
		}
		return nil
	})
	full := errors.Is(err, errFull)
	if err != nil && !full || len(found) == 0 {
		return 0, false, err
	}
	if err := archive(ctx, found); err != nil {
		return 0, false, err
	}
	err = letter.Within(ctx, db, func(ctx context.Context, r sqlplane.Runner) error {
		rows = 0
		for _, s := range deletes {
			n, err := r.Exec(ctx, s)
			if err != nil {
				return err
			}
			rows += n
		}
		return nil
	})
	return rows, full || len(found) == maxRows, err
}

func statement(db sqlplane.Database, query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: args}
}
