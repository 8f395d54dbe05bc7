// Package aged has an archive keep the old rows of a table, and deletes them behind it. A row is deleted only after the
// archive has it: a process that is killed in between leaves it in both, and it is archived again.
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

// Archive keeps rows, as (*archive.Writer).Write does. After nil they are safe.
type Archive = func(ctx context.Context, rows []upkeep.Expired) error

// Table is a table whose rows have a time. Its texts are written for package dialect.
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
	Columns any       // its JSON is made of them
	Bytes   int       // of its large columns
}

// A batch has at most so many rows, and one row more than so many bytes. The rows are in memory, and each is deleted by a
// statement of its own.
const (
	maxRows  = 500
	maxBytes = 8 << 20
)

var errFull = errors.New("the batch has enough bytes")

// Sweep archives some of the rows that are older than keep, the oldest first, and deletes them. more says that others may be left.
// Rows that two sweepers have read are archived by both.
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
	Old   Condition     // that they must still meet when they are deleted: a new row may have replaced one, and is young
	Since time.Time     // newer rows stay; the zero time: no bound
	Keep  time.Duration // their retention
}

// Some archives and deletes some rows of a selection. last is the last row that was read, and more says that there may be others behind it.
func Some(ctx context.Context, db sqlplane.Database, t Table, s Selection, archive Archive) (rows int64, last Row, more bool, err error) {
	var found []upkeep.Expired
	var deletes []store.Statement
	read, bytes := 0, 0
	query := "select " + t.Columns + " from " + t.Name + " where " + s.Where.Text + " order by " + s.Order + " limit ?"
	err = db.Pool().Query(ctx, statement(db, query, slices.Concat(s.Where.Args, []any{int64(maxRows)})...), func(row sqlplane.Row) (err error) {
		if last, err = t.Read(row); err != nil {
			return err
		}
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
