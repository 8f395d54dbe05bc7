package receipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/aged"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// MinRetain is the shortest allowed retention of receipts and tombstones (rows that prevent a commit of the
// service). With a shorter retention, the service could still receive a forwarded request after the tombstone
// of the request was deleted.
const MinRetain = time.Hour

const (
	sweepBatch = 500 // rows of one transaction
	tooShort   = "receipt: the retention is less than one hour, but a request can be in flight for one hour. Try: at least the retention of the keys"
)

// Sweep deletes the receipts and tombstones (rows that Settle has written) that are older than retain by the
// clock of the database, in small transactions with pauses, and returns the number of deleted rows. The parameter
// retain must be at least as long as the gateway keeps keys. If the receipt of an operation was deleted and a
// request with the same key arrives later, the operation runs a second time. Any number of sweepers may run at
// the same time. If Config.Archive is set, a row is deleted only after the row was archived.
func (t *Table) Sweep(ctx context.Context, retain time.Duration) (rows int64, err error) {
	if err := checkRetain(retain); err != nil {
		return 0, err
	}
	for {
		began := time.Now()
		n, more, err := t.sweep(ctx, retain)
		// Another sweeper may have caused a deadlock, so the batch is tried again.
		if err != nil && store.KindOf(err) != store.KindRetry {
			return rows, fmt.Errorf("receipt: sweep: %w", err)
		}
		if rows += n; err == nil && !more {
			return rows, nil
		}
		if !sleep.For(ctx, time.Since(began)) { // the database has half of the time for other work
			return rows, ctx.Err()
		}
	}
}

// sweep deletes some of the rows that are too old. The result more reports that more such rows may exist.
func (t *Table) sweep(ctx context.Context, retain time.Duration) (rows int64, more bool, err error) {
	if t.archive != nil {
		return aged.Sweep(ctx, t.db, archived, retain, t.archive)
	}
	rows, err = t.db.Pool().Exec(ctx, t.statement(sweepings[t.db.Dialect()], retain.Microseconds(), sweepBatch))
	return rows, rows >= sweepBatch, err
}

// archived is the table for an archive. An archive gets the whole body, whatever MaxBody is.
var archived = aged.Table{
	Name: "once_receipt", At: "created_at", Is: "operation = ?",
	Columns: "operation, fingerprint, status, header, body, tombstone, created_at",
	Read: func(row sqlplane.Row) (r aged.Row, err error) {
		var c archivedRow
		var header []byte
		err = row.Scan(&c.Operation, &c.Fingerprint, &c.Status, &header, &c.Body, &c.Tombstone, (*dialect.Time)(&c.CreatedAt))
		c.Header = string(header)
		return aged.Row{ID: store.ID{Key: c.Operation}, At: c.CreatedAt, Args: []any{c.Operation}, Columns: c, Bytes: len(c.Body)}, err
	},
}

// archivedRow is a row of once_receipt in an archive.
type archivedRow struct {
	Operation   string    `json:"operation"`
	Fingerprint string    `json:"fingerprint"`
	Status      int       `json:"status"`
	Header      string    `json:"header,omitempty"` // the JSON as it was stored
	Body        []byte    `json:"body,omitempty"`
	Tombstone   bool      `json:"tombstone"`
	CreatedAt   time.Time `json:"created_at"`
}

// sweepings has the statements that delete some of the rows that are too old. On PostgreSQL they skip rows that
// another sweeper has locked.
var sweepings = map[sqlplane.Dialect]string{
	sqlplane.PostgreSQL: "delete from once_receipt where operation in (select operation from once_receipt where created_at < AGO(?) order by created_at limit ? FOR UPDATE SKIP LOCKED)",
	sqlplane.SQLite:     "delete from once_receipt where operation in (select operation from once_receipt where created_at < AGO(?) order by created_at limit ?)",
	sqlplane.MySQL:      "delete from once_receipt where created_at < AGO(?) order by created_at limit ?",
}

// Count returns how many rows [Table.Sweep] would delete with the same retain.
func (t *Table) Count(ctx context.Context, retain time.Duration) (rows int64, err error) {
	if err := checkRetain(retain); err != nil {
		return 0, err
	}
	err = t.db.Pool().Query(ctx, t.statement("select count(*) from once_receipt where created_at < AGO(?)", retain.Microseconds()), func(row sqlplane.Row) error {
		return row.Scan(&rows)
	})
	return rows, err
}

func checkRetain(retain time.Duration) error {
	if retain < MinRetain {
		return errors.New(tooShort)
	}
	return nil
}

// Forget erases the header and the body of a receipt, and reports whether the receipt existed. The row of the
// receipt stays, with its fingerprint and its status, so that the operation does not run again.
func (t *Table) Forget(ctx context.Context, operation string) (found bool, err error) {
	if err := checkOperation(operation); err != nil {
		return false, err
	}
	_, found, err = t.Get(ctx, operation)
	if err != nil || !found {
		return found, err
	}
	if _, err := t.db.Pool().Exec(ctx, store.Statement{SQL: dialect.Text(t.db.Dialect(), "update once_receipt set header = null, body = null where operation = ?"), Args: []any{operation}}); err != nil {
		return true, fmt.Errorf("receipt: forget: %w", err)
	}
	return true, nil
}
