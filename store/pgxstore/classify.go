package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Classify implements [store.Classifier].
func (s *Store) Classify(err error) store.Kind {
	if k := store.KindOf(err); k != store.KindOther {
		return k
	}
	if pe := serverError(err); pe != nil {
		return pgsql.Classify(pe.Code)
	}
	return store.KindOther
}

// classify returns the store's error for an error of a pipeline that contains the COMMIT. It reports "not applied"
// only if the server has said so. The parameter at is the statement that has failed.
//
// [pgconn.SafeToRetry] is not used. In the query modes exec and simple_protocol, pgx reports a lost answer as
// "conn closed", and calls this error safe to retry.
func classify(err error, at statement) error {
	pe := serverError(err)
	kind := store.KindLost
	switch {
	// Without an error of the server, the answer was lost.
	case pe == nil:
	case fatal(pe):
		// The kind stays KindLost: the server may have committed before it ended the connection.
	case pgsql.WrongRows(pe.Code, pe.Message):
		kind, err = store.KindOther, fmt.Errorf("%w: %w", store.ErrRows, err)
	case at.refusal == store.KindEnded && pe.Code == pgsql.DivisionByZero, (at.sql == pgsql.SwapKeepSame || at.sql == pgsql.SwapInsertSame) && pe.Code == pgsql.OutOfRange:
		kind, err = store.KindEnded, errEnded // the handler has ended the transaction and begun another one
	case at.refusal == store.KindStale && pe.Code == pgsql.DivisionByZero:
		return stale()
	case at.refusal != store.KindOther && pgsql.Taken(pe.Code):
		kind = store.KindTaken
	case pe.Code == pgsql.UniqueViolation:
		kind, err = store.KindOther, fmt.Errorf("%w: %w", sqlplane.ErrDuplicate, err)
	case ownTable(pe, at.appended || own[at.sql]):
		kind, err = store.KindUnavailable, notMigrated(err) // the same error as of a Begin with a look-up
	default:
		kind = pgsql.Classify(pe.Code)
	}
	return &store.Error{Kind: kind, Err: explained(err)}
}

// fatal reports whether the server has ended the connection because of this error. The field Severity is in the
// language of the server, so fatal prefers SeverityUnlocalized.
func fatal(pe *pgconn.PgError) bool {
	severity := pe.SeverityUnlocalized
	if severity == "" {
		severity = pe.Severity // for an error that pgx itself has made, or a server before 9.6
	}
	return severity == "FATAL" || severity == "PANIC"
}

// down classifies an error that occurred before anything can have been applied.
func down(err error) error {
	kind := store.KindUnavailable
	if pe := serverError(err); pe != nil {
		switch {
		case pgsql.Classify(pe.Code) == store.KindRetry:
			kind = store.KindRetry
		case pgsql.Classify(pe.Code) == store.KindBusy: // the server works, but a wait for a lock or a statement has taken too long
			kind = store.KindBusy
		case pgsql.Unwritable(pe.Code):
			// For example, the key contains a NUL. No later try can store this key either.
			kind = store.KindOther
		case pe.Code == pgsql.UndefinedTable, pe.Code == pgsql.UndefinedColumn:
			err = notMigrated(err)
		}
	}
	return &store.Error{Kind: kind, Err: explained(err)}
}

// ownTable reports whether a missing table or column belongs to once or to a capability of once, and not to the
// handler. If known is true, the failed statement is one of once.
func ownTable(pe *pgconn.PgError, known bool) bool {
	return (known || strings.Contains(pe.Message, `"once_`)) && (pe.Code == pgsql.UndefinedTable || pe.Code == pgsql.UndefinedColumn)
}

func notMigrated(err error) error { return kind.NotMigrated(err, "pgxstore.Migrate", "pool") }

// unsendable refuses an ID with a NUL if texts are a part of the statement (simple protocol). The server would
// treat the NUL as the end of the message, and the connection would look broken.
func (s *Store) unsendable(id store.ID) error {
	if s.simple && strings.ContainsRune(id.Scope+id.Key, 0) {
		return &store.Error{Kind: store.KindOther, Err: errNUL}
	}
	return nil
}

var errNUL = errors.New("pgxstore: the scope or the key contains a zero byte, which PostgreSQL cannot store. Try: a key from once.DeriveKey")

// stale returns the error for an operation without a record that is too old to be executed.
func stale() error {
	return &store.Error{Kind: store.KindStale, Err: errors.New("pgxstore: the operation has no record, and its first attempt is older than the retention, so the record may have expired. Try: find out whether the operation has taken effect, before you use a new key")}
}

// serverError returns the error that the server has reported, or nil.
func serverError(err error) *pgconn.PgError {
	if err == nil {
		return nil // errors.As would allocate, and this runs after every success
	}
	var pe *pgconn.PgError
	errors.As(err, &pe)
	return pe
}

// refusedByStandby reports whether err was returned because the server is a standby. If it is a standby,
// refusedByStandby closes conn, so that the pool may find the primary. It rolls a failed transaction back.
func refusedByStandby(ctx context.Context, conn *pgx.Conn, err error) (standby bool) {
	if pe := serverError(err); pe == nil || !pgsql.StandbyRefuses(pe.Code) || conn.IsClosed() {
		return false
	}
	answer := awaitAnswer(conn, abandonTime)
	defer func() { _ = answer.stop(nil) }()
	// In a failed transaction, the server would refuse the query below.
	if conn.PgConn().TxStatus() != 'I' {
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			return false
		}
	}
	if conn.QueryRow(ctx, pgsql.Recovery).Scan(&standby) == nil && standby {
		_ = conn.Close(ctx)
	}
	return standby
}
