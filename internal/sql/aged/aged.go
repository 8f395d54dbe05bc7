// Package aged archives the old rows of a table, and then deletes them. It deletes a row only after the archive has
// stored the row. If the process is killed between these two steps, the row exists in both places, and is archived again.
package aged

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Archive stores rows, as (*archive.Writer).Write does. If the error is nil, the rows are stored safely.
type Archive = func(ctx context.Context, rows []upkeep.Expired) error

// Table is a table whose rows have a time. Its texts use the words of package dialect.
type Table struct {
	Name    string
	Columns string // the columns that Read scans: all columns of the table
	At      string // the column of the time, which has an index
	Is      string // a condition with arguments that only one row fulfils, such as "operation = ?"
	Read    func(row sqlplane.Row) (Row, error)
}

// Row is a row of a Table.
type Row struct {
	ID      store.ID  // identifies the row in the archive
	At      time.Time // the value of the column Table.At
	Args    []any     // the arguments of Table.Is
	Columns any       // the columns, which are stored as JSON
	Bytes   int       // the size of its large columns
}

// These are the limits of a batch. A batch may exceed maxBytes by one row. The rows are kept in memory, and each row is
// deleted by a separate statement.
const (
	maxRows  = 500
	maxBytes = 8 << 20
)

var errFull = errors.New("the batch has enough bytes")

// Sweep archives and deletes some of the rows that are older than keep, the oldest rows first. more reports whether further
// old rows may exist. If two sweepers read a row at the same time, both archive it.
func Sweep(ctx context.Context, db sqlplane.Database, t Table, keep time.Duration, archive Archive) (rows int64, more bool, err error) {
	old := Condition{t.At + " < AGO(?)", []any{keep.Microseconds()}}
	rows, _, more, err = Some(ctx, db, t, Selection{Where: old, Order: t.At, Old: old, Keep: keep}, archive)
	return rows, more, err
}

// Condition is a condition with its arguments.
type Condition struct {
	Text string
	Args []any
}

// Selection says which rows are archived and deleted.
type Selection struct {
	Where Condition     // the rows that are read
	Order string        // the column that orders them
	Old   Condition     // must also hold at the delete, because a new row may have replaced the old one
	Since time.Time     // newer rows are kept; the zero time: no limit
	Keep  time.Duration // the retention of the rows
}

// Some archives and deletes some rows of a selection. last is the last row that was read. more reports whether further rows
// may follow.
func Some(ctx context.Context, db sqlplane.Database, t Table, s Selection, archive Archive) (rows int64, last Row, more bool, err error) {
	var found []upkeep.Expired
	var deletes []store.Statement
	read, bytes := 0, 0
	query := "select " + t.Columns + " from " + t.Name + " where " + s.Where.Text + " order by " + s.Order + " limit ?"
	err = db.Pool().Query(ctx, statement(db, query, slices.Concat(s.Where.Args, []any{int64(maxRows)})...), func(row sqlplane.Row) (err error) {
		if last, err = t.Read(row); err != nil {
			return err
		}
		// The row is too new. It still counts as read, so that the caller can continue after it.
		if read++; !s.Since.IsZero() && !last.At.Before(s.Since) {
			return nil
		}
		columns, err := json.Marshal(last.Columns)
		if err != nil {
			return fmt.Errorf("the expired row %q of table %s cannot be read: %w", last.ID.Key, t.Name, err)
		}
		found = append(found, upkeep.Expired{ID: last.ID, At: last.At.Add(s.Keep), Table: t.Name, Row: columns})
		deletes = append(deletes, statement(db, "delete from "+t.Name+" where "+t.Is+" and "+s.Old.Text, slices.Concat(last.Args, s.Old.Args)...))
		if bytes += last.Bytes; bytes > maxBytes {
			return errFull
		}
		return nil
	})
	more = errors.Is(err, errFull) || read == maxRows
	if err != nil && !errors.Is(err, errFull) || len(found) == 0 {
		return 0, last, more, err
	}
	if err := archive(ctx, found); err != nil {
		return 0, last, false, err
	}
	err = letter.Within(ctx, db, func(ctx context.Context, r sqlplane.Runner) error {
		// Within may run this function again after a conflict.
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
	return rows, last, more, err
}

func statement(db sqlplane.Database, query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(db.Dialect(), query), Args: args}
}
