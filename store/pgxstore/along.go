package pgxstore

import "github.com/jackc/pgx/v5"

// alongRows are the rows of a statement that has travelled with the opening.
type alongRows struct {
	pgx.Rows
	conn    *pgx.Conn
	results pgx.BatchResults
	closed  bool
	err     error
}

func (r *alongRows) Conn() *pgx.Conn { return r.conn }

func (r *alongRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Scan ends the rows if it fails, as with pgx; and so does Values.
func (r *alongRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

func (r *alongRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// Close may be called again, also when the connection is somebody else's.
func (r *alongRows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	if err := r.results.Close(); r.Rows.Err() == nil {
		r.err = err
	}
}

func (r *alongRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}
