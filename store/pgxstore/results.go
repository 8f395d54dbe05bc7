package pgxstore

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// notedBatch notes the errors of a batch that the server has not seen: an argument
// that cannot be encoded, a context that was over.
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

// note forgives reading on after the last result, which loses nothing.
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

// refusedRows answer for a query that was not sent: pgx allows to ignore its error.
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

// refusedBatch answers for a batch that was not sent.
type refusedBatch struct{ err error }

func (b refusedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, b.err }
func (b refusedBatch) Query() (pgx.Rows, error)         { return refusedRows(b), b.err }
func (b refusedBatch) QueryRow() pgx.Row                { return queriedRow{err: b.err} }
func (b refusedBatch) Tx() pgx.Tx                       { return nil }
func (b refusedBatch) Close() error                     { return b.err }
