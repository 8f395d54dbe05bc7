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

// errManaged is the error of Commit and Rollback of a handler's transaction. This transaction ends when the handler
// returns, with a commit if the handler returns no error.
var errManaged = errors.New("pgxstore: a handler cannot end its transaction, because the engine commits after the handler. Try: return an error to roll back, or a value to commit")

// tx is the transaction that the handler gets. Only the store ends it. tx keeps track of its savepoints. An error that
// the server does not know (such as an argument that cannot be encoded) makes the transaction fail like an error of the
// server. tx does not see statements that are run on Conn. A COMMIT on Conn is detected at the end, unless an answer is
// lost.
type tx struct {
	pgx.Tx
	parent    *tx // nil: this is the transaction itself, not a savepoint
	outer     *tx // for a join: the transaction around it, if that is a tx, too
	savepoint string
	root      *shared
	// tail holds the appended statements, which are sent with the commit.
	tail []store.Statement
	open int   // the number of open savepoints
	err  error // the error of a statement that has failed without an error of the server
	over atomic.Bool
}

// shared holds the state that a transaction shares with its savepoints.
type shared struct {
	gate                    // the goroutine that has entered the gate may use the connection and the fields below
	statements atomic.Int64 // read without the gate
	savepoints int
	prefix     string      // of the names of the savepoints
	refusal    func() bool // store.BeginOptions.Refuse
}

// refuses reports whether a failing statement must replace the statement of the handler.
func (s *shared) refuses() bool { return s.refusal != nil && s.refusal() }

var prefixes atomic.Uint32

// name returns the name of the next savepoint. The prefix distinguishes it from the savepoint of an abandoned
// goroutine of an earlier transaction on the connection. There are only a few prefixes, because pg_stat_statements keeps
// each text before PostgreSQL 17.
func (s *shared) name() string {
	if s.prefix == "" {
		s.prefix = fmt.Sprintf("once_%d_", prefixes.Add(1)%64)
	}
	s.savepoints++
	return s.prefix + strconv.Itoa(s.savepoints)
}

// append keeps s until the commit. If t is a savepoint, s is dropped when t is rolled back.
func (t *tx) append(s store.Statement) error {
	if err := t.enter(s.SQL); err != nil {
		return err
	}
	defer t.root.leave()
	t.root.statements.Add(1)
	t.tail = append(t.tail, s)
	return nil
}

// enter enters the gate for a call that must not follow an error or the end of t. It refuses statements that would end
// the transaction.
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

// admit returns an error if the statement is not allowed now.
func (t *tx) admit(sql string) error {
	if err := t.refuse(); err != nil {
		return err
	}
	if sqlguard.PostgreSQL.Ends(sql) {
		// The error is recorded, because a handler that ignores it must not commit either.
		return t.note(errControl)
	}
	return nil
}

// ended reports whether t, or a transaction that contains t, has ended. Then the connection may belong to another
// goroutine.
func (t *tx) ended() bool {
	for l := t; l != nil; l = cmp.Or(l.parent, l.outer) {
		if l.over.Load() {
			return true
		}
	}
	return false
}

// refuse returns the error of every further statement, or nil.
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

// note records an error that the server has not reported. After an error of the server, the server itself refuses
// further statements, also with savepoints that tx does not know.
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

// Commit releases a savepoint. For the handler's transaction it returns an error.
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
	// The statements move after the release, so that they are dropped if the savepoint is rolled back instead.
	t.parent.tail = append(t.parent.tail, t.tail...)
	return nil
}

// Rollback rolls back to a savepoint, and clears an error that came after it. For the handler's transaction it
// returns an error.
func (t *tx) Rollback(ctx context.Context) error {
	if t.parent == nil {
		return t.managed()
	}
	// Only the gate is entered. t.enter would refuse after an error, and this rollback clears the error.
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

// If the writes were committed without the record, they could not be undone. After a crash or a lost answer, nothing
// would show that they were applied.
var errControl = &store.Error{Kind: store.KindMisused, Err: errors.New(
	"pgxstore: the statement begins or ends a transaction, and a handler must not do this. Try: return an error to roll back, or a value to commit. For a savepoint, use tx.Begin")}

var errBatchBegins = errors.New("pgxstore: the batch contains a BeginTx, but the handler is already in a transaction. Try: a batch without BeginTx")

func (t *tx) managed() error {
	if t.over.Load() {
		return pgx.ErrTxClosed // a deferred Rollback after the end must not look like a mistake
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
		return s.conn // without opening the transaction
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
	if rows == nil { // the caller's pgx.Tx is not an implementation of pgx
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
	if br.Tx() != nil { // the batch contains a BEGIN; the server has only warned
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

// LargeObjects returns the large objects of pgx. tx does not notice an error in them that the server does not know,
// and does not stop a goroutine that uses them while the transaction ends.
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

// closedObjects returns the large objects of a transaction that has ended.
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
