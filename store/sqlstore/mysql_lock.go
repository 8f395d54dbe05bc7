package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// MySQL has compound statements in procedures only, and an insert waits a second at least for a row that
// another transaction has inserted. So a claim is a lock of the session there (GET_LOCK), which is asked for
// without waiting, and is let go after COMMIT or ROLLBACK. The row is inserted when the transaction commits;
// its primary key is the last gatekeeper, whatever the lock has done.

// lockName is what the lock of an operation is called. The locks of all databases of a server have one
// space of names.
func (s *Store) lockName(id store.ID) string {
	h := sha256.New()
	for _, part := range []string{s.schema, id.Scope, id.Key} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return "once_" + hex.EncodeToString(h.Sum(nil)[:24])
}

// mysqlLock asks for a lock and then looks the operation up, in this order: which of them has the
// lock knows what its last holder has committed. The lock is let go at once if there is a record in the way.
const (
	mysqlGetLock = "(select get_lock(?, 0) as locked) l"
	mysqlLock    = "select l.locked, if(?, 255, coalesce(state, 0)), coalesce(fence, 0), claim, fingerprint, coalesce(status, 0), coalesce(kind, 0), head, body, request, " +
		"coalesce(trace, ''), coalesce(name, ''), coalesce(point, ''), coalesce(calling, 0), data, coalesce(lease_until <= " + mysqlNow + ", 0), coalesce(since, 0), coalesce(" + mysqlExpired + ", 0), " +
		"if(" + mysqlLive + ", release_lock(?), null) from " + mysqlGetLock + " left join once_operation on scope = ? and `key` = ?"
	mysqlLive   = "scope is not null and not coalesce(" + mysqlExpired + ", false)"
	mysqlUnlock = "release_lock(?)"

	mysqlInsert = "insert into once_operation set " + mysqlFields + ", scope = ?, `key` = ?, since = " + mysqlNow
)

// raw is a part of a text, and no value in it.
type raw string

// lockMySQL asks for the lock of an operation and looks its record up. locked says that the caller has the
// lock now, and must let it go. There is no look-up if it is not wanted, because it would lock the place of the record.
func (s *Store) lockMySQL(ctx context.Context, on rowQuerier, opts store.BeginOptions, look bool) (found row, locked bool, err error) {
	ctx = sqlguard.LeavesSession(ctx)
	name := s.lockName(opts.ID)
	replica := raw(s.replica(opts))
	var got sql.NullBool
	if !look {
		var onReplica bool
		err = on.QueryRowContext(ctx, fill("select locked, ? from "+mysqlGetLock, replica, name)).Scan(&got, &onReplica)
		if onReplica {
			found.State = stateReplica
		}
	} else {
		if !opts.Durable {
			replica = "(" + replica + ") and not (" + mysqlLive + ")"
		}
		var released sql.NullBool
		found, err = scan(behind{on.QueryRowContext(ctx, fill(mysqlLock, replica, name, name, opts.ID.Scope, opts.ID.Key)), &released}, &got)
	}
	switch {
	case err != nil:
		return row{}, false, err
	case found.State == stateReplica:
		return row{}, false, errReplica
	case !got.Valid:
		return row{}, false, errNoLock
	}
	return found, got.Bool && found.live().State == store.StateAbsent, nil
}

var errNoLock = errors.New("the server could not say whether the operation is locked (GET_LOCK returned NULL)")

// behind scans what is behind the columns of a record into last.
type behind struct {
	row  *sql.Row
	last any
}

func (b behind) Scan(dest ...any) error { return b.row.Scan(append(dest, b.last)...) }

// unlock is the expression that lets go of the lock of an operation.
func (s *Store) unlock(id store.ID) string { return fill(mysqlUnlock, s.lockName(id)) }

// claimByLock is claimAtOnce for MySQL. A row that has expired is claimed like one on MariaDB, so that no
// sweeper deletes it meanwhile.
func (t *txn) claimByLock(ctx, own context.Context, opts store.BeginOptions, _ string) (c lookup, err error) {
	c.row = row{Record: store.Record{State: store.StateRunning}} // in the transaction that has the lock
	found, locked, err := t.s.lockMySQL(ctx, t.conn, opts, true)
	if err != nil {
		t.letGo(ctx, opts.ID)
		return c, err
	}
	if !locked {
		if found.live().State != store.StateAbsent {
			c.row = found
		}
		return c, nil
	}
	t.guard = new(sqlguard.Txn) // an earlier try may have used it
	t.guard.DoAfter(t.s.unlock(opts.ID))
	t.guard.IfIncomplete(t.s.recordUnknown(opts.ID))
	if !found.expired {
		t.guard.BeforeMark(func(ctx context.Context, s sqlguard.Session) error {
			return s.Run(ctx, fill(mysqlClaim, opts.ID.Scope, opts.ID.Key))
		})
	}
	t.tx, err = t.conn.BeginTx(t.guard.Context(own), &sql.TxOptions{Isolation: levels[opts.Isolation]})
	if err != nil {
		t.letGo(ctx, opts.ID)
		return c, err
	}
	if !found.expired {
		return lookup{granted: true}, nil
	}
	err = t.setTimeouts(ctx, opts.Timeouts) // the update waits for its place in an index, if that is locked
	if err == nil {
		_, err = t.tx.ExecContext(ctx, fill(mysqlTry, opts.ID.Scope, opts.ID.Key)) // and would wait for the row
	}
	if err == nil {
		t.hasRow, err = claimed(t.tx.ExecContext(ctx, fill(mysqlReclaim, opts.ID.Scope, opts.ID.Key)))
	}
	if err == nil && t.hasRow {
		return lookup{granted: true, row: found}, nil
	}
	undo := t.tx.Rollback()
	t.tx = nil
	switch {
	case is(err, mysqlLockWait) && undo == nil: // for as long as it may be waited for
		return c, nil
	case err != nil && !isLocked(err):
		return c, errors.Join(err, undo)
	}
	return lookup{locked: err != nil}, undo // a sweeper has the row, or has had it
}

// letGo lets go of the lock of an operation, if the session has it, or drops the connection.
func (t *txn) letGo(ctx context.Context, id store.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTime)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, "do "+t.s.unlock(id)); err != nil {
		dropConn(t.conn)
	}
}

// recordIsMissing reports whether the record of the claim is still to be inserted.
func (t *txn) recordIsMissing() bool {
	return !t.s.compound && t.conn != nil && !t.id.IsZero() && !t.hasRow && !t.guard.WroteBeforeMark()
}

// claimByLock is claimMySQL for MySQL: it waits neither for those who have the claim nor for their rows.
func (j *joined) claimByLock(ctx context.Context, opts store.BeginOptions) error {
	unlock := j.s.unlock(opts.ID)
	j.guard.DoAfter(unlock) // before the statement, which may have the lock and fail all the same
	found, locked, err := j.s.lockMySQL(ctx, j.caller, opts, !j.serializable())
	if err == nil && !locked {
		j.guard.DoNotAfter(unlock)
	}
	if err != nil || !locked {
		j.seen.row = found
		return err
	}
	id := []any{opts.ID.Scope, opts.ID.Key}
	for tries := 1; tries <= maxJoinTries; tries++ {
		how := mysqlClaim
		if found.expired {
			how = mysqlReclaim
		}
		if j.seen.granted, err = claimed(j.caller.ExecContext(ctx, fill(how, id...))); j.seen.granted {
			return nil
		}
		if err != nil && !isLocked(err) && !is(err, mysqlDuplicate) {
			return err
		}
		if undo := j.rollback(ctx); undo != nil {
			return errors.Join(err, undo)
		}
		if isLocked(err) { // a gap between rows, and not the row of a holder: it was waited for
			return err
		}
		// What the transaction sees is older than the record. This look sees what is committed.
		switch found, err = lookUp(ctx, j.caller, fill(mysqlRead, id...)+" for share nowait"); {
		case isLocked(err) && tries == maxJoinTries:
			return j.rollback(ctx) // in flight
		case isLocked(err):
			if err := errors.Join(j.rollback(ctx), pause(ctx, tries)); err != nil {
				return err
			}
		case err != nil, found.live().State != store.StateAbsent:
			j.seen.row = found
			return err
		}
	}
	return &store.Error{Kind: store.KindRetry, Err: errVanished}
}
