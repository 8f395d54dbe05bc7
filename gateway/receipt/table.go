package receipt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/internal/sql/aged"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/upkeep"
)

// Config configures a [Table]. The zero value is ready to use.
type Config struct {
	// Wait limits how long Settle waits for an open transaction of the service that has inserted the receipt.
	// On MySQL and MariaDB, Wait is rounded up to full seconds. Default 5 s.
	Wait time.Duration

	// MaxBody is the size in bytes of the largest body that Table reads. If the body of a receipt is larger than
	// MaxBody, Table returns an error. Default 16 MiB.
	MaxBody int

	// Archive receives the rows that [Table.Sweep] is about to delete. The method (*archive.Writer).Write can be
	// used as Archive. Sweep deletes the rows only after Archive has returned nil. If Sweep is interrupted after
	// a call of Archive, the next Sweep passes the same rows to Archive again. Default: no archive.
	Archive func(ctx context.Context, rows []upkeep.Expired) error
}

// MaxOperation is the greatest length of the ID of an operation, in bytes.
const MaxOperation = 255

const (
	defaultWait = 5 * time.Second
	defaultBody = 16 << 20
	runs        = 3 // how often a tombstone's transaction is tried: a deadlock or a serialization failure is no answer
)

// Table is the table once_receipt in the database of a service. Table implements [gateway.Receipts]. The
// methods of Table can be called concurrently, and from any number of processes.
type Table struct {
	db      sqlplane.Database
	maxBody int
	archive aged.Archive

	// bury inserts a tombstone unless a row exists. It commits if commit is true, and otherwise rolls back. It
	// returns the number of inserted rows.
	bury func(ctx context.Context, operation string, commit bool) (rows int64, err error)
}

var _ gateway.Receipts = (*Table)(nil)

// New returns the table of receipts in the database of s. The database of s must be the primary: on a replica a
// missing receipt proves nothing, and a tombstone (a row that Settle writes) does not prevent the service from
// committing. The database does not need the tables in which an engine stores operations: see
// sqlstore.Config.NoOperations. New panics if cfg is invalid, or if s has no SQL.
func New[TX any](s store.Store[TX], cfg Config) *Table {
	db, ok := store.As[sqlplane.SQL[TX]](s)
	if !ok {
		panic("receipt: New: the store has no SQL transactions. Try: pgxstore or sqlstore")
	}
	if cfg.Wait < 0 || cfg.MaxBody < 0 {
		panic(fmt.Sprintf("receipt: New: Wait %v and MaxBody %d must not be negative", cfg.Wait, cfg.MaxBody))
	}
	wait := cmp.Or(cfg.Wait, defaultWait)
	// At a higher isolation level, an insert that has waited for a receipt would fail.
	opts := store.BeginOptions{Isolation: store.ReadCommitted, Timeouts: store.Timeouts{Acquire: wait, Lock: wait, Statement: 2 * wait, Idle: wait}}
	if db.Dialect() == sqlplane.SQLite { // SQLite has only one isolation level
		opts.Isolation = store.DefaultIsolation
	}
	insert := insertTombstone(db.Dialect())
	return &Table{db: db, maxBody: cmp.Or(cfg.MaxBody, defaultBody), archive: cfg.Archive, bury: func(ctx context.Context, operation string, commit bool) (int64, error) {
		t, _, err := s.Begin(ctx, opts)
		if err != nil {
			return 0, err
		}
		rows, err := db.On(t.Tx()).Exec(ctx, store.Statement{SQL: insert, Args: []any{operation}})
		if err != nil || !commit {
			return rows, errors.Join(err, t.Rollback(ctx))
		}
		return rows, t.Commit(ctx, store.Change{})
	}}
}

// insertTombstone returns the statement that makes a receipt impossible. The statement waits for a transaction
// that has inserted a receipt. On MySQL it keeps an existing row by an update that changes nothing, because
// "insert ignore" would hide other errors as well. On MySQL it inserts no row into a replica, where a user with
// enough privileges could write.
func insertTombstone(d sqlplane.Dialect) string {
	const into = "insert into once_receipt (operation, status, tombstone) "
	if d == sqlplane.MySQL {
		return dialect.Text(d, into+"select ?, 0, true from dual where concat(@@global.read_only) in ('OFF', '0') KEEP(once_receipt.operation)")
	}
	return dialect.Text(d, into+"values (?, 0, true) KEEP(operation)")
}

// Check tests whether the database accepts tombstones, the rows that Settle writes. Check returns an error if
// the table is missing, the user lacks the privilege, or the server is a replica. Check writes nothing.
func (t *Table) Check(ctx context.Context) error {
	rows, err := t.bury(ctx, "once-check", false)
	if err == nil && rows == 0 {
		err = errReplica
	}
	if err != nil {
		return fmt.Errorf("receipt: check: %w", err)
	}
	return nil
}

var errReplica = errors.New("this server is a replica or read-only, so a missing receipt does not prove that an operation was not executed. Try: the address of the primary")

// Look implements [gateway.Receipts].
func (t *Table) Look(ctx context.Context, operation string) (r gateway.Receipt, found bool, err error) {
	row, found, err := t.Get(ctx, operation)
	return row.Receipt, found, err
}

// Row is a receipt or a tombstone (a row that prevents a commit of the service), with the time at which the row
// was written.
type Row struct {
	gateway.Receipt

	CreatedAt time.Time
}

// Get is like [Table.Look], but also returns the time at which the row was written.
func (t *Table) Get(ctx context.Context, operation string) (r Row, found bool, err error) {
	if err := checkOperation(operation); err != nil {
		return r, false, err
	}
	err = t.db.Pool().Query(ctx, t.statement(selectReceipt, t.maxBody, operation), func(row sqlplane.Row) (err error) {
		found = true
		r, err = t.read(row)
		return err
	})
	if err != nil {
		return Row{}, false, fmt.Errorf("receipt: look: %w", err)
	}
	return r, found, nil
}

// Settle implements [gateway.Receipts].
func (t *Table) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	if err := checkOperation(operation); err != nil {
		return gateway.Receipt{}, err
	}
	var buried error
	for range runs {
		if _, buried = t.bury(ctx, operation, true); store.KindOf(buried) != store.KindRetry {
			break
		}
	}
	// This is a separate statement after the commit. It finds a committed row, which is final, even if the
	// answer to the COMMIT of the tombstone was lost.
	r, found, err := t.Look(ctx, operation)
	switch {
	case err != nil:
		return gateway.Receipt{}, errors.Join(err, buried)
	case found:
		return r, nil
	case buried != nil:
		return gateway.Receipt{}, fmt.Errorf("receipt: settle: the outcome of the operation is unknown: %w", buried)
	}
	return gateway.Receipt{}, fmt.Errorf("receipt: settle: the table has neither a receipt nor a tombstone of the operation: %w", errReplica)
}

// selectReceipt selects a receipt, without a body that is longer than allowed.
const selectReceipt = "select operation, fingerprint, status, header, case when octet_length(body) <= ? then body end, coalesce(octet_length(body), 0), tombstone, created_at from once_receipt where operation = ?"

// errUnusable says that the row itself is the reason, so that another attempt fails as well.
var errUnusable = errors.New("the stored receipt cannot be used")

func (t *Table) read(row sqlplane.Row) (r Row, err error) {
	var header []byte
	var size int64
	if err := row.Scan(&r.Operation, &r.Fingerprint, &r.Status, &header, &r.Body, &size, &r.Tombstone, (*dialect.Time)(&r.CreatedAt)); err != nil {
		return r, err
	}
	if size > int64(t.maxBody) {
		return r, fmt.Errorf("%w: the body of the receipt of operation %s has %d bytes, and at most %d are allowed. Try: a larger MaxBody", errUnusable, r.Operation, size, t.maxBody)
	}
	if len(header) > 0 {
		if r.Header, err = parseHeader(header); err != nil {
			return r, fmt.Errorf("%w: the header of the receipt of operation %s cannot be read: %w. Try: correct the column header of this row in once_receipt", errUnusable, r.Operation, err)
		}
	}
	return r, nil
}

// parseHeader parses a JSON object whose values are texts or lists of texts.
func parseHeader(text []byte) (http.Header, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	var h http.Header
	if len(fields) > 0 {
		h = http.Header{}
	}
	for name, value := range fields {
		var list []string
		if value[0] == '"' {
			list = make([]string, 1)
			if err := json.Unmarshal(value, &list[0]); err != nil {
				return nil, err
			}
		} else if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		for _, v := range list {
			h.Add(name, v)
		}
	}
	return h, nil
}

// checkOperation returns an error unless the ID has only characters that every database distinguishes, and is a
// single segment of a URL.
func checkOperation(operation string) error {
	if operation == "" || len(operation) > MaxOperation || operation == "." || operation == ".." || strings.ContainsFunc(operation, isUnsafe) {
		return fmt.Errorf("receipt: %q is not the ID of an operation. Try: a UUID, or at most %d letters, digits, '-', '_', '.' and ':'", operation, MaxOperation)
	}
	return nil
}

func isUnsafe(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:", r)
}

func (t *Table) statement(query string, args ...any) store.Statement {
	return store.Statement{SQL: dialect.Text(t.db.Dialect(), query), Args: args}
}
