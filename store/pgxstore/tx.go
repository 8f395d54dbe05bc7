package pgxstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// errManaged is the error of Commit and Rollback of a handler's transaction: it
// ends when the handler returns, with a commit if the handler returns no error.
var errManaged = errors.New("pgxstore: a handler cannot end its transaction, because once commits after the handler. Try: return an error to roll back, or a value to commit")

// tx is the user's transaction. Only the store ends it. It keeps track of its savepoints. An error that the
// server does not see (such as an argument that cannot be encoded) makes the transaction fail like an error of
// the server. It does not see statements that are run on Conn; a COMMIT there is found out at the end, unless
// an answer is lost.
type tx struct {
	pgx.Tx
	parent    *tx // nil: the real transaction
	outer     *tx // of a join: the transaction that it has joined, if that is a tx, too
	savepoint string
	root      *shared
	tail      []store.Statement
	open      int   // savepoints
	err       error // a statement that has failed on this side
	over      atomic.Bool
}

// shared is common to a transaction and its savepoints.
type shared struct {
	gate                    // the goroutine that has entered it may use the fields below and the connection
	statements atomic.Int64 // read without the gate
	savepoints int
	prefix     string      // of the names of its savepoints
	refusal    func() bool // store.BeginOptions.Refuse
}

// refuses reports whether a failing statement must be sent instead of the handler's.
func (s *shared) refuses() bool { return s.refusal != nil && s.refusal() }

var prefixes atomic.Uint32

// name names the next savepoint. The prefix distinguishes it from a savepoint that a left-behind goroutine
// still has from an earlier transaction of the connection. The number of names is small, because before version
// 17 pg_stat_statements keeps each text.
func (s *shared) name() string {
	if s.prefix == "" {
		s.prefix = fmt.Sprintf("once_%d_", prefixes.Add(1)%64)
	}
	s.savepoints++
	return s.prefix + strconv.Itoa(s.savepoints)
}

// append keeps s until the commit. It belongs to the savepoint t, if t is a savepoint.
func (t *tx) append(s store.Statement) error {
	if err := t.enter(s.SQL); err != nil {
		return err
	}
	defer t.root.leave()
	t.root.statements.Add(1)
	t.tail = append(t.tail, s)
	return nil
}

// enter is enter of the gate, for a call that must not follow an error or the end of t. It refuses commands
// that would end the transaction.
func (t *tx) enter(sql string) error {
	if err := t.root.enter(); err != nil {
		return err
	}
	err := t.admit(sql)
	if err != nil {
		t.root.leave()
	}
	return err
}

// admit returns why a statement may not follow.
func (t *tx) admit(sql string) error {
	if err := t.refuse(); err != nil {
		return err
	}
	if sqlguard.PostgreSQL.Ends(sql) {
		// Noted, because a handler that ignores this error must not commit either.
		return t.note(errControl)
	}
	return nil
}

// ended reports whether t, or a transaction that t is part of, is over. The connection may then
// belong to another goroutine.
func (t *tx) ended() bool {
	for l := t; l != nil; l = cmp.Or(l.parent, l.outer) {
		if l.over.Load() {
			return true
		}
	}
	return false
}

// refuse returns why nothing may follow.
func (t *tx) refuse() error {
	for l := t; l != nil; l = cmp.Or(l.parent, l.outer) {
		switch {
		case l.over.Load():
			return pgx.ErrTxClosed
		case l.err != nil:
			return &store.Error{Kind: store.KindAborted, Err: fmt.Errorf("the transaction accepts no more statements, because an earlier statement has failed: %w", l.err)}
		}
	}
	return nil
}

// note records an error that the server has not reported. After an error that the server has reported, the
// server itself refuses statements, with savepoints of any kind.
func (t *tx) note(err error) error {
	if err != nil && t.err == nil && serverError(err) == nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.err = err
	}
	return err
}

// Begin sets a savepoint.
func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.enter(""); err != nil {
		return nil, err
	}
	defer t.root.leave()
	name := t.root.name()
	if _, err := t.Tx.Exec(ctx, "savepoint "+name); err != nil {
		return nil, t.note(err)
	}
	t.open++
	return &tx{Tx: t.Tx, parent: t, savepoint: name, root: t.root}, nil
}

// Commit releases a savepoint; of the handler's transaction it is an error.
func (t *tx) Commit(ctx context.Context) error {
	if t.parent == nil {
		return t.managed()
	}
	if err := t.enter(""); err != nil {
		return err
	}
	defer t.root.leave()
	if _, err := t.Tx.Exec(ctx, "release savepoint "+t.savepoint); err != nil {
		return t.parent.note(err)
	}
	t.closed()
	// Not before the release: if the savepoint is rolled back, its appended statements must be dropped.
	t.parent.tail = append(t.parent.tail, t.tail...)
	return nil
}

// Rollback rolls back to a savepoint, and undoes an error that came after it; of
// the handler's transaction it is an error.
func (t *tx) Rollback(ctx context.Context) error {
	if t.parent == nil {
		return t.managed()
	}
	// The gate alone, because t.enter refuses after an error, and the rollback is what undoes it.
	if err := t.root.enter(); err != nil {
		return err
	}
	defer t.root.leave()
	if t.ended() {
		return pgx.ErrTxClosed
	}
	if _, err := t.Tx.Exec(ctx, "rollback to savepoint "+t.savepoint); err != nil {
		return t.parent.note(err)
	}
	t.closed()
	return nil
}

// A commit of the writes without the record could neither be undone nor, when the process
// dies or an answer is lost, be found out.
var errControl = &store.Error{Kind: store.KindMisused, Err: errors.New(
	"pgxstore: the statement begins or ends a transaction, and a handler must not do this. Try: return an error to roll back, or a value to commit. For a savepoint, use tx.Begin")}

var errBatchBegins = errors.New("pgxstore: the batch contains a BeginTx, but the handler is already in a transaction. Try: a batch without BeginTx")

func (t *tx) managed() error {
	if t.over.Load() {
		return pgx.ErrTxClosed // so that a deferred Rollback stays silent
	}
	return errManaged
}

func (t *tx) closed() {
	t.over.Store(true)
	t.parent.open--
}

// Conn is not guarded: see [tx].
func (t *tx) Conn() *pgx.Conn {
	if t.root.enter() == nil {
		defer t.root.leave()
		return t.Tx.Conn()
	}
	if s, ours := t.Tx.(*session); ours {
		return s.conn // and not opened
	}
	return t.Tx.Conn()
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.enter(sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer t.root.leave()
	t.root.statements.Add(1)
	if t.root.refuses() {
		sql, args = failing, nil
	}
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, t.note(err)
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows := t.query(ctx, sql, args)
	return rows, rows.err
}

func (t *tx) query(ctx context.Context, sql string, args []any) *gatedRows {
	if err := t.enter(sql); err != nil {
		return &gatedRows{Rows: refusedRows{err}, gate: &t.root.gate, closed: true, err: err}
	}
	defer t.root.leave()
	t.root.statements.Add(1)
	if t.root.refuses() {
		sql, args = failing, nil
	}
	rows, err := t.Tx.Query(ctx, sql, args...)
	if rows == nil { // the caller's pgx.Tx is not of pgx
		rows = refusedRows{err}
	}
	return &gatedRows{Rows: rows, gate: &t.root.gate, err: t.note(err)}
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return (*gatedRow)(t.query(ctx, sql, args))
}

func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.enter(""); err != nil {
		return refusedBatch{err}
	}
	defer t.root.leave()
	for _, q := range b.QueuedQueries {
		if err := t.admit(q.SQL); err != nil {
			return refusedBatch{err}
		}
	}
	t.root.statements.Add(int64(b.Len()))
	if t.root.refuses() {
		_, err := t.Tx.Exec(ctx, failing)
		return refusedBatch{t.note(err)}
	}
	br := t.Tx.SendBatch(ctx, b)
	if br.Tx() != nil { // the server has only warned
		return refusedBatch{errors.Join(t.note(errBatchBegins), br.Close())}
	}
	return notedBatch{br, t}
}

func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := t.enter(""); err != nil {
		return 0, err
	}
	defer t.root.leave()
	t.root.statements.Add(1)
	if t.root.refuses() {
		_, err := t.Tx.Exec(ctx, failing)
		return 0, t.note(err)
	}
	n, err := t.Tx.CopyFrom(ctx, table, columns, src)
	return n, t.note(err)
}

// LargeObjects returns pgx's own large objects. It does not notice an error that occurs in them on this side only, and does not
// stop a goroutine that uses them while the transaction ends.
func (t *tx) LargeObjects() pgx.LargeObjects {
	if t.root.enter() != nil {
		return closedObjects()
	}
	defer t.root.leave()
	if t.ended() {
		return closedObjects()
	}
	t.root.statements.Add(1)
	return t.Tx.LargeObjects()
}

// closedObjects are the large objects of a transaction that is over.
func closedObjects() pgx.LargeObjects {
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(&b, pgx.ErrTxClosed).Tx().LargeObjects()
}

func (t *tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.enter(sql); err != nil {
		return nil, err
	}
	defer t.root.leave()
	sd, err := t.Tx.Prepare(ctx, name, sql)
	return sd, t.note(err)
}
