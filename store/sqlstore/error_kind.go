package sqlstore

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/oncelib/once/internal/sql/kind"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Classify implements [store.Classifier].
func (s *Store) Classify(err error) store.Kind {
	if k := store.KindOf(err); k != store.KindOther {
		return k
	}
	k, _, _ := s.dialect.classify(err)
	return k
}

// IsDeadlock implements [ability.DeadlockDetector]. SQLite has no deadlocks, because the writers of a file
// wait for each other in a queue.
func (s *Store) IsDeadlock(err error) bool {
	switch s.dialect.name {
	case sqlplane.PostgreSQL:
		return sqlguard.SQLState(err) == pgsql.Deadlock
	case sqlplane.MySQL:
		return is(err, mysqlDeadlock)
	}
	return false
}

// failed classifies the error of a statement before COMMIT: nothing was applied.
func (s *Store) failed(err error, atRecord bool) error {
	kind, taken, known := s.dialect.classify(err)
	switch {
	case tooLarge(err):
		return s.refusedAsTooLarge(err)
	case errors.Is(err, sql.ErrTxDone):
		return &store.Error{Kind: store.KindMisused, Err: errOver}
	case atRecord && taken:
		kind = store.KindTaken
	case !atRecord && s.duplicate(err):
		err = fmt.Errorf("%w: %w", sqlplane.ErrDuplicate, err)
	case atRecord && s.dialect.undefined(err):
		kind, err = store.KindUnavailable, notMigrated(err) // the same error as of a Begin with a look-up
	case errors.Is(err, driver.ErrBadConn): // drivers use this error for both reasons
		s.forgetPacket()
		return &store.Error{Kind: store.KindUnavailable, Err: fmt.Errorf("the connection was lost, or the handler has returned without closing its rows: %w", err)}
	case !known, kind == store.KindLost:
		// COMMIT was not sent yet, so nothing was applied.
		s.forgetPacket()
		kind = store.KindUnavailable
	}
	return &store.Error{Kind: kind, Err: err}
}

var errOver = errors.New("the handler has ended its transaction, so nothing was applied. Try: remove tx.Commit and tx.Rollback from the handler; the engine ends the transaction after the handler")

// lost classifies the error of COMMIT.
func (s *Store) lost(err error) error {
	kind, taken, _ := s.dialect.classify(err)
	var commit *sqlguard.CommitError
	var refused *sqlguard.RefusedError
	switch {
	case tooLarge(err):
		return s.refusedAsTooLarge(err)
	case errors.As(err, new(*store.Error)): // the error of its group, which is classified already
		return err
	case errors.Is(err, sql.ErrTxDone):
		return &store.Error{Kind: store.KindMisused, Err: errOver}
	case errors.Is(err, sqlguard.ErrEnded):
		kind = store.KindEnded
	case errors.As(err, &refused):
		kind = store.KindAborted
	case errors.As(err, &commit) && !commit.InDoubt:
		switch {
		case taken && s.dialect.name == sqlplane.MySQL: // the record was sent together with COMMIT
			kind = store.KindTaken
		case s.dialect.undefined(err):
			kind, err = store.KindUnavailable, notMigrated(err)
		// The guard knows that COMMIT was not sent, so nothing was applied.
		case kind == store.KindLost:
			kind = store.KindUnavailable
		}
	default:
		s.forgetPacket()
		kind = store.KindLost
	}
	return &store.Error{Kind: kind, Err: err}
}

// down classifies an error that occurred before anything can have been applied. If a statement has waited too long,
// for example for a lock, the server is busy, and not down.
func (s *Store) down(err error) error {
	if store.KindOf(err) == store.KindBusy {
		return err
	}
	kind := store.KindUnavailable
	switch k, _, _ := s.dialect.classify(err); {
	case k == store.KindBusy, k == store.KindRetry && s.dialect.name == sqlplane.SQLite: // SQLite has waited for busy_timeout already
		kind = store.KindBusy
	case k == store.KindRetry:
		kind = store.KindRetry
	}
	if s.dialect.name == sqlplane.PostgreSQL && pgsql.Unwritable(sqlguard.SQLState(err)) {
		kind = store.KindOther
	}
	if s.dialect.undefined(err) {
		err = notMigrated(err)
	}
	return &store.Error{Kind: kind, Err: err}
}

func notMigrated(err error) error { return kind.NotMigrated(err, "sqlstore.Migrate", "db") }

// duplicate reports whether a row with the same primary or unique key already exists.
func (s *Store) duplicate(err error) bool {
	switch s.dialect.name {
	case sqlplane.PostgreSQL:
		return sqlguard.SQLState(err) == pgsql.UniqueViolation
	case sqlplane.MySQL:
		return is(err, mysqlDuplicate)
	}
	code, _ := sqlguard.SQLiteCode(err)
	return code == codePrimaryKey || code == codeUnique
}

// readOnly reports whether the server has refused a write because it accepts no writes, as a standby does.
func (s *Store) readOnly(err error) bool {
	switch s.dialect.name {
	case sqlplane.PostgreSQL:
		return sqlguard.SQLState(err) == pgsql.ReadOnly
	case sqlplane.MySQL:
		return refusesWrites(err)
	}
	return false
}
