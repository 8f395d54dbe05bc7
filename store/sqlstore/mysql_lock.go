package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
)

// lockName returns the name of an operation's lock, as a literal. The name contains the database, because all databases
// of a server share the names of locks.
func (s *Store) lockName(id store.ID) raw {
	var text []byte
	for _, part := range []string{s.schema, id.Scope, id.Key} {
		// The lengths distinguish ("a", "bc") from ("ab", "c").
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
	}
	h := sha256.Sum256(text)
	// MySQL accepts names of at most 64 characters.
	return raw("'once_" + hex.EncodeToString(h[:24]) + "'")
}

// mysqlLock asks for a lock, and then looks the operation up. Because of this order, a caller that gets the lock sees
// the commit of the previous holder. If a record exists, the statement releases the lock at once.
const (
	mysqlGetLock = "(select get_lock(?, 0) as locked) l"
	mysqlLock    = "select l.locked, if(?, 255, coalesce(state, 0)), coalesce(fence, 0), claim, fingerprint, coalesce(status, 0), coalesce(kind, 0), head, body, request, " +
		"coalesce(trace, ''), coalesce(name, ''), coalesce(point, ''), coalesce(calling, 0), data, coalesce(lease_until <= " + mysqlNow + ", 0), coalesce(since, 0), coalesce(" + mysqlExpired + ", 0), " +
		"if(" + mysqlLive + ", release_lock(?), null) from " + mysqlGetLock + " left join once_operation on scope = ? and `key` = ?"
	mysqlLockFirst = "select get_lock(?, 0), ?, " + mysqlNow + "; select *, release_lock(?) from once_operation" + mysqlWhere

	mysqlLive   = "scope is not null and not coalesce(" + mysqlExpired + ", false)"
	mysqlUnlock = "release_lock(?)"

	mysqlInsert = "insert into once_operation set since = " + mysqlNow + ", scope = ?, `key` = ?"
)

// mysqlNames holds the fields of a record, in the order of the function fields. An insert names only the fields that
// differ from the defaults of the table, because a shorter text is less work for the server.
var mysqlNames = [...]string{"state = ?", "fence = ?", "claim = ?", "fingerprint = ?", "status = ?", "kind = ?", "head = ?", "body = ?", "request = ?", "trace = ?",
	"name = ?", "point = ?", "calling = ?", "data = ?", "lease_until = since + ?", "expires_at = since + ?"}

// insertMySQL returns the statement that inserts the record of a change.
func insertMySQL(c store.Change) string {
	var text strings.Builder
	text.WriteString(mysqlInsert)
	values := []any{c.ID.Scope, c.ID.Key}
	for i, value := range fields(c) {
		switch v := value.(type) {
		case nil:
			continue
		case []byte:
			if v == nil {
				continue
			}
		case string:
			if v == "" {
				continue
			}
		case bool:
			if !v {
				continue
			}
		}
		text.WriteString(", " + mysqlNames[i])
		values = append(values, value)
	}
	return fill(text.String(), values...)
}

// raw is a part of a statement that fill inserts without quotes.
type raw string

// lockMySQL asks for the lock of an operation, and looks its record up. If locked is true, the caller holds the lock and
// must release it. If look is false, lockMySQL reads no record, because the read would lock the place of the record in
// the index.
func (s *Store) lockMySQL(ctx context.Context, on rowQuerier, opts store.BeginOptions, look bool) (found row, locked bool, err error) {
	ctx = sqlguard.LeavesSession(ctx)
	name := s.lockName(opts.ID)
	replica := raw(s.replica(opts))
	var got sql.NullBool
	if conn, ok := on.(*sql.Conn); ok && s.several {
		if found, got, err = s.lockInPacket(ctx, conn, opts); err != nil || !found.expired {
			return s.locked(found, got, err)
		}
		found = row{} // the server has released the lock, because it does not know that the record has expired
	}
	if !look {
		var onReplica bool
		err = on.QueryRowContext(ctx, fill("select locked, ? from "+mysqlGetLock, replica, name)).Scan(&got, &onReplica)
		if onReplica {
			found.State = stateReplica
		}
	} else {
		// A replica may answer with a finished record, unless the record must be durable.
		if !opts.Durable {
			replica = "(" + replica + ") and not (" + mysqlLive + ")"
		}
		var released sql.NullBool
		found, err = scan(behind{on.QueryRowContext(ctx, fill(mysqlLock, replica, name, name, opts.ID.Scope, opts.ID.Key)), &released}, &got)
	}
	return s.locked(found, got, err)
}

// locked checks the answer of lockMySQL, and returns it.
func (s *Store) locked(found row, got sql.NullBool, err error) (row, bool, error) {
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

var errNoLock = errors.New("the MySQL server could not find out whether the operation is locked, because GET_LOCK has returned NULL")

// lockInPacket does the same as lockMySQL, with two statements of one packet. They are less work for the server than
// one statement with a join. The client computes the derived columns, which saves the server as much work again.
func (s *Store) lockInPacket(ctx context.Context, conn *sql.Conn, opts store.BeginOptions) (found row, got sql.NullBool, err error) {
	name := s.lockName(opts.ID)
	rows, err := conn.QueryContext(sqlguard.OwnText(ctx), fill(mysqlLockFirst, name, raw(s.readOnlyWord(opts)), name, opts.ID.Scope, opts.ID.Key))
	if err != nil {
		return found, got, err
	}
	defer func() { _ = rows.Close() }()
	var readOnly string
	var now int64
	if rows.Next() {
		err = rows.Scan(&got, &readOnly, &now)
	}
	if err == nil && rows.NextResultSet() {
		found, err = scanAll(rows, now)
	}
	if readOnly != "OFF" && readOnly != "0" && (opts.Durable || found.live().State == store.StateAbsent) {
		found.State = stateReplica
	}
	return found, got, errors.Join(err, rows.Err())
}

// scanAll scans the columns of a record and one more column, if the result has a row.
func scanAll(rows *sql.Rows, now int64) (r row, err error) {
	names, err := rows.Columns()
	switch {
	case err != nil:
		return r, err
	case len(names) <= mysqlTable:
		return r, errColumns
	case !rows.Next():
		return r, nil
	}
	var stored []byte
	var trace, name, point sql.NullString
	var lease, expires sql.NullInt64
	of := map[string]any{"state": &r.State, "fence": &r.Fence, "claim": &r.Nonce, "fingerprint": &r.Fingerprint, "status": &r.Result.Status, "kind": &r.Result.Kind, "head": &stored,
		"body": &r.Result.Body, "request": &r.Request, "trace": &trace, "name": &name, "point": &point, "calling": &r.CallStarted, "data": &r.Data, "since": (*dialect.Time)(&r.Since),
		"lease_until": &lease, "expires_at": &expires}
	dest := make([]any, len(names))
	for i, column := range names {
		if dest[i] = of[column]; dest[i] == nil {
			// A later release may have added a column, which this release ignores.
			dest[i] = new(sql.RawBytes)
		}
	}
	if err = rows.Scan(dest...); err != nil {
		return r, err
	}
	r.Trace, r.Name, r.RecoveryPoint = trace.String, name.String, point.String
	r.LeaseExpired = r.State == store.StateRunning && lease.Valid && lease.Int64 <= now
	r.expired = r.State == store.StateDone && expires.Valid && expires.Int64 <= now
	return r, head.Decode(stored, &r.Result)
}

// mysqlTable is the number of columns of the table.
const mysqlTable = 19

var errColumns = errors.New("the table once_operation lacks some columns")

// behind scans the columns of a record, and then one more column into last.
type behind struct {
	row  interface{ Scan(dest ...any) error }
	last any
}

func (b behind) Scan(dest ...any) error { return b.row.Scan(append(dest, b.last)...) }

// unlock returns the expression that releases the lock of an operation.
func (s *Store) unlock(id store.ID) string { return fill(mysqlUnlock, s.lockName(id)) }
