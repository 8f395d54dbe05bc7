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
	mysqlLockFirst = "select get_lock(?, 0), ?; select " + mysqlColumns + ", if(" + mysqlExpired + ", null, release_lock(?)) from once_operation" + mysqlWhere

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
	if conn, ok := on.(*sql.Conn); ok && s.several {
		found, got, err = s.lockInPacket(ctx, conn, opts)
	} else if !look {
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

// lockInPacket is lockMySQL in two statements of one packet, which are less work to the server than one that joins.
func (s *Store) lockInPacket(ctx context.Context, conn *sql.Conn, opts store.BeginOptions) (found row, got sql.NullBool, err error) {
	name := s.lockName(opts.ID)
	rows, err := conn.QueryContext(sqlguard.OwnText(ctx), fill(mysqlLockFirst, name, raw(s.replica(opts)), name, opts.ID.Scope, opts.ID.Key))
	if err != nil {
		return found, got, err
	}
	defer func() { _ = rows.Close() }()
	var onReplica bool
	if rows.Next() {
		err = rows.Scan(&got, &onReplica)
	}
	if err == nil && rows.NextResultSet() && rows.Next() {
		var released sql.NullBool
		found, err = scan(behind{rows, &released})
	}
	if onReplica && (opts.Durable || found.live().State == store.StateAbsent) {
		found.State = stateReplica
	}
	return found, got, errors.Join(err, rows.Err())
}

// behind scans what is behind the columns of a record into last.
type behind struct {
	row  interface{ Scan(dest ...any) error }
	last any
}

func (b behind) Scan(dest ...any) error { return b.row.Scan(append(dest, b.last)...) }

// unlock is the expression that lets go of the lock of an operation.
func (s *Store) unlock(id store.ID) string { return fill(mysqlUnlock, s.lockName(id)) }
