package pgxstore

import (
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncelib/once/store"
)

// gate allows one call at a time in a transaction, and no call after the end of the transaction. A goroutine that
// the handler has left behind may make a call while the transaction ends. So the gate checks the end and begins the
// call in one atomic step.
type gate struct{ state atomic.Uint32 }

const (
	gateBusy     = 1 << iota // a call is running
	gateOver                 // the transaction has ended
	gateCollided             // two calls have met, so the transaction must not commit
)

// enter begins a call. If the error is nil, the caller must call [gate.leave] after the call.
func (g *gate) enter() error {
	for {
		s := g.state.Load()
		switch {
		case s&gateOver != 0:
			return pgx.ErrTxClosed
		case s&gateCollided != 0:
			return errCollided
		case s&gateBusy != 0:
			if g.state.CompareAndSwap(s, s|gateCollided) {
				return errCollided
			}
		case g.state.CompareAndSwap(s, s|gateBusy):
			return nil
		}
	}
}

func (g *gate) leave() { g.state.And(^uint32(gateBusy)) }

// end makes the gate refuse every later call. It reports whether a call is running. If a call is running, the
// caller of end must not use the connection any more.
func (g *gate) end() (underWay bool) { return g.state.Or(gateOver)&gateBusy != 0 }

// collided reports whether two calls have met.
func (g *gate) collided() bool { return g.state.Load()&gateCollided != 0 }

var (
	errCollided = error(&store.Error{Kind: store.KindMisused, Err: errors.New(
		"pgxstore: two goroutines use one transaction at the same time. Try: one statement at a time")})
	errUnderWay = errors.New(
		"a statement was still running when the handler returned, so the store has closed the connection. Try: wait for all goroutines before the handler returns")
)

// cut closes the socket of a connection that another goroutine is using. It sends nothing. pgx ends the running
// call with an error, and asks the server to cancel it.
func cut(conn *pgconn.PgConn) { _ = conn.Conn().Close() }

// gatedRows are rows that cannot be read after the end of their transaction.
type gatedRows struct {
	pgx.Rows
	gate   *gate
	closed bool
	err    error
}

func (r *gatedRows) Next() bool {
	if r.closed {
		return false
	}
	if r.err = r.gate.enter(); r.err != nil {
		return false
	}
	defer r.gate.leave()
	if r.Rows.Next() {
		return true
	}
	r.closed = true // pgx closes the rows after the last one
	return false
}

func (r *gatedRows) Scan(dest ...any) error {
	if err := r.gate.enter(); err != nil {
		return err
	}
	defer r.gate.leave()
	return r.Rows.Scan(dest...)
}

func (r *gatedRows) Values() ([]any, error) {
	if err := r.gate.enter(); err != nil {
		return nil, err
	}
	defer r.gate.leave()
	return r.Rows.Values()
}

// Close can be called several times, even after the end of the transaction.
func (r *gatedRows) Close() {
	if r.closed || r.gate.enter() != nil {
		return
	}
	defer r.gate.leave()
	r.closed = true
	r.Rows.Close()
}

func (r *gatedRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err()
}

// gatedRow is the first row of a query.
type gatedRow gatedRows

func (r *gatedRow) Scan(dest ...any) error {
	rows := (*gatedRows)(r)
	if rows.err != nil {
		return rows.err
	}
	return queriedRow{rows: rows}.Scan(dest...)
}

// notedBatch records errors of a batch that the server does not know, for example because an argument cannot be
// encoded or a context has ended.
type notedBatch struct {
	pgx.BatchResults
	t *tx
}

func (b notedBatch) Exec() (pgconn.CommandTag, error) {
	if err := b.t.root.enter(); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer b.t.root.leave()
	tag, err := b.BatchResults.Exec()
	return tag, b.note(err)
}

func (b notedBatch) Query() (pgx.Rows, error) {
	rows := b.query()
	return rows, rows.err
}

func (b notedBatch) query() *gatedRows {
	gate := &b.t.root.gate
	if err := gate.enter(); err != nil {
		return &gatedRows{Rows: refusedRows{err}, gate: gate, closed: true, err: err}
	}
	defer gate.leave()
	rows, err := b.BatchResults.Query()
	return &gatedRows{Rows: rows, gate: gate, err: b.note(err)}
}

func (b notedBatch) QueryRow() pgx.Row { return (*gatedRow)(b.query()) }

func (b notedBatch) Close() error {
	if err := b.t.root.enter(); err != nil {
		return err
	}
	defer b.t.root.leave()
	return b.note(b.BatchResults.Close())
}

// note records an error. It ignores the error of a read after the last result, because this error loses nothing.
func (b notedBatch) note(err error) error {
	if err != nil && !errors.Is(err, pgx.ErrNoRows) && err.Error() != "no more results in batch" {
		return b.t.note(err)
	}
	return err
}

// queriedRow is the first row of a query.
type queriedRow struct {
	rows pgx.Rows
	err  error
}

func (r queriedRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// refusedRows are the rows of a query that was not sent. pgx allows its users to ignore the error of Query, so the
// rows must not be nil.
type refusedRows struct{ err error }

func (r refusedRows) Close()                                       {}
func (r refusedRows) Err() error                                   { return r.err }
func (r refusedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r refusedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r refusedRows) Next() bool                                   { return false }
func (r refusedRows) Scan(...any) error                            { return r.err }
func (r refusedRows) Values() ([]any, error)                       { return nil, r.err }
func (r refusedRows) RawValues() [][]byte                          { return nil }
func (r refusedRows) Conn() *pgx.Conn                              { return nil }
func (r refusedRows) TypeMap() *pgtype.Map                         { return nil }

// refusedBatch contains the answers to a batch that was not sent.
type refusedBatch struct{ err error }

func (b refusedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, b.err }
func (b refusedBatch) Query() (pgx.Rows, error)         { return refusedRows(b), b.err }
func (b refusedBatch) QueryRow() pgx.Row                { return queriedRow{err: b.err} }
func (b refusedBatch) Tx() pgx.Tx                       { return nil }
func (b refusedBatch) Close() error                     { return b.err }
