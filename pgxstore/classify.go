package pgxstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/pgsql"
	"github.com/oncelib/once/store"
)

// Classify implements [store.Classifier].
func (s *Store) Classify(err error) store.Kind {
	if k := store.KindOf(err); k != store.Other {
		return k
	}
	if pe := serverError(err); pe != nil {
		return pgsql.Classify(pe.Code)
	}
	return store.Other
}

// classify turns the error of a pipeline that carries the COMMIT into one of ours.
// It is not a "no" unless the server has said so: an end of the connection, FATAL
// included, leaves the COMMIT in doubt.
//
// [pgconn.SafeToRetry] does not help. In the query modes exec and simple_protocol
// pgx reports an answer that was lost as "conn closed", and calls that safe.
func classify(err error, atRecord bool) error {
	pe := serverError(err)
	kind := store.Lost
	switch {
	case pe == nil:
	case fatal(pe):
	case pgsql.WrongRows(pe.Code, pe.Message):
		kind, err = store.Other, fmt.Errorf("%w: %w", store.ErrRows, err)
	case atRecord && pgsql.Taken(pe.Code):
		kind = store.Taken
	default:
		kind = pgsql.Classify(pe.Code)
	}
	return &store.Error{Kind: kind, Err: err}
}

// fatal reports whether the server has ended the connection. Severity itself is in
// the language of the server.
func fatal(pe *pgconn.PgError) bool {
	severity := pe.SeverityUnlocalized
	if severity == "" {
		severity = pe.Severity // what pgx makes itself, and servers before 9.6
	}
	return severity == "FATAL" || severity == "PANIC"
}

// down is for what happens before anything can have been applied.
func down(err error) error {
	kind := store.Down
	if pe := serverError(err); pe != nil {
		switch {
		case pgsql.Classify(pe.Code) == store.Retry:
			kind = store.Retry
		case pe.Code == pgsql.UndefinedTable:
			err = fmt.Errorf("%w. Try: once migrate up, or pgxstore.Migrate", err)
		}
	}
	return &store.Error{Kind: kind, Err: err}
}

// stale is for what is absent, and too old to be executed.
func stale() error {
	return &store.Error{Kind: store.Stale, Err: errors.New("pgxstore: too late for what is absent")}
}

func serverError(err error) *pgconn.PgError {
	if err == nil {
		return nil // asked on every success: costs no allocation
	}
	var pe *pgconn.PgError
	errors.As(err, &pe)
	return pe
}
