package sqlstore

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/sql/txlimit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// mysqlNow is the clock of the database in milliseconds.
const mysqlNow = dialect.MySQLNow

const (
	mysqlColumns = "state, fence, claim, fingerprint, status, kind, head, body, request, coalesce(trace, ''), coalesce(name, ''), coalesce(point, ''), calling, data, " +
		"coalesce(lease_until <= " + mysqlNow + ", 0), since, coalesce(" + mysqlExpired + ", 0)"
	mysqlExpired = "state = 2 and expires_at <= " + mysqlNow
	mysqlWhere   = " where scope = ? and `key` = ?"
	mysqlExpect  = mysqlWhere + " and state <> 2 and fence = ? and (not ? or (state = 1 and lease_until <= " + mysqlNow + ")) and (? or claim = ?)"
	mysqlFields  = "state = ?, fence = ?, claim = ?, fingerprint = ?, status = ?, kind = ?, head = ?, body = ?, request = ?, trace = ?, name = ?, point = ?, calling = ?, data = ?" + mysqlTimes
	mysqlKeep    = "state = ?, fence = ?, claim = ?, status = ?, kind = ?, head = ?, body = ?, point = ?, calling = ?, data = ?" + mysqlTimes // see Change.KeepRequest
	mysqlTimes   = ", lease_until = " + mysqlNow + " + ?, expires_at = " + mysqlNow + " + ?"
)

// These are statements of MySQL. The method fill puts values into them.
const (
	mysqlRead = "select " + mysqlColumns + " from once_operation" + mysqlWhere

	// The claim of a join is a row in the state "unknown". The same row is written before a statement that may end the
	// transaction. While the transaction is open, no other transaction sees the row. If the handler commits the transaction
	// by itself, the row tells all others that the outcome is not known.
	mysqlClaim   = "insert into once_operation (scope, `key`, since) values (?, ?, " + mysqlNow + ")"
	mysqlReclaim = "update once_operation set state = 3, fence = 1, claim = '', fingerprint = null, status = 0, kind = 0, head = null, body = null, " +
		"request = null, trace = null, name = null, point = null, calling = 0, data = null, lease_until = null, expires_at = null, since = " + mysqlNow + mysqlWhere + " and " + mysqlExpired
	mysqlUnknown = "replace into once_operation (scope, `key`, since) select ?, ?, " + mysqlNow + " from dual where not exists (" +
		"select 1 from once_operation" + mysqlWhere + " and not coalesce(" + mysqlExpired + ", false))"
	mysqlFinish  = "update once_operation set " + mysqlFields + mysqlWhere + mysqlClaimed
	mysqlRelease = "delete from once_operation" + mysqlWhere + mysqlClaimed
	mysqlClaimed = " and state = 3 and claim = ''"

	// An update that changes no value counts no row, so the row is read before the update.
	mysqlExpected = "select " + mysqlReplica + " from once_operation" + mysqlExpect + " and (? or state <> 3 or claim <> '') for update"
	mysqlUpdate   = "update once_operation set " + mysqlFields + mysqlWhere
	mysqlNarrow   = "update once_operation set " + mysqlKeep + mysqlWhere
	mysqlDelete   = "delete from once_operation" + mysqlWhere

	mysqlSwapKeep    = "update once_operation set " + mysqlKeep + mysqlExpect // the fence changes, so the update always counts a row
	mysqlDropExpired = mysqlDelete + " and " + mysqlExpired
)

// recordUnknown returns a statement that records an operation as unknown after an incomplete rollback. An existing
// record stays as it is.
func (s *Store) recordUnknown(id store.ID) string {
	text := fill(mysqlUnknown, id.Scope, id.Key, id.Scope, id.Key)
	if s.compound {
		return noWait(text)
	}
	return text
}

var mysql = database{
	name:     sqlplane.MySQL,
	classify: classifyMySQL,
	undefined: func(err error) bool {
		return errors.Is(err, errColumns) || is(err, mysqlNoTable) || is(err, mysqlNoColumn) && (strings.Contains(err.Error(), "'trace'") || strings.Contains(err.Error(), "'name'"))
	},
}

// These are error numbers of MySQL.
const (
	mysqlDuplicate    = 1062
	mysqlNoColumn     = 1054
	mysqlNoTable      = 1146
	mysqlIncomplete   = 1196 // a warning of ROLLBACK: tables without transactions have kept writes
	mysqlLockWait     = 1205
	mysqlReadOnly     = 1290 // the server runs with --read-only, or another option forbids the statement
	mysqlReadOnlyTx   = 1792 // the session has transaction_read_only
	mysqlReadOnlyMode = 1836
	mysqlDeadlock     = 1213
	mysqlSignal       = 1644
	mysqlChanged      = 1020 // the row has changed since it was read, with innodb_snapshot_isolation
	mysqlLocked       = 3572 // the row is locked and the statement has NOWAIT; MariaDB reports a lock wait instead
)

func is(err error, code int) bool {
	got, _ := sqlguard.MySQLCode(err)
	return got == code
}

// isLocked reports whether a statement failed because another transaction holds a lock.
func isLocked(err error) bool { return is(err, mysqlLockWait) || is(err, mysqlLocked) }

func classifyMySQL(err error) (kind store.Kind, taken, known bool) {
	if errors.As(err, new(*txlimit.TimeoutError)) {
		return store.KindBusy, false, true
	}
	code, known := sqlguard.MySQLCode(err)
	switch code {
	case mysqlDeadlock, mysqlChanged:
		kind = store.KindRetry
	case mysqlDuplicate:
		taken = true
	case mysqlLockWait, mysqlLocked, 1969, 3024: // 1969 and 3024: the statement has taken too long, on MariaDB and MySQL
		kind = store.KindBusy
	case 1053, 1927, 3032, 4031: // shutdown; connection killed; offline mode; idle for too long
		kind = store.KindLost
	case mysqlReadOnly, mysqlReadOnlyTx, mysqlReadOnlyMode:
		if refusesWrites(err) {
			kind = store.KindUnavailable
		}
	case mysqlSignal:
		if strings.Contains(err.Error(), claimLost) {
			kind = store.KindMisused
		}
	}
	return kind, taken, known
}

// refusesWrites reports whether a server, or its session, accepts no writes at all.
func refusesWrites(err error) bool {
	return is(err, mysqlReadOnly) && strings.Contains(err.Error(), "read-only") || is(err, mysqlReadOnlyTx) || is(err, mysqlReadOnlyMode)
}

// fill puts values into a statement. So every statement is one round trip, whatever the configuration of the driver
// is. Bytes are written in hexadecimal, which needs no escapes.
func fill(text string, values ...any) string {
	// A byte needs two hexadecimal digits, and a value needs x'' around its digits.
	size := len(text)
	for _, v := range values {
		switch v := v.(type) {
		case []byte:
			size += 2*len(v) + 3
		case string:
			size += 2*len(v) + 3
		case raw:
			size += len(v)
		default:
			size += 20
		}
	}
	b := make([]byte, 0, size)
	for _, v := range values {
		before, after, _ := strings.Cut(text, "?")
		b = append(b, before...)
		text = after
		switch v := v.(type) {
		case nil:
			b = append(b, "null"...)
		case []byte:
			if v == nil {
				b = append(b, "null"...)
				continue
			}
			b = literal(b, v)
		case string:
			b = literal(b, []byte(v))
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case float64:
			b = strconv.AppendFloat(b, v, 'f', -1, 64)
		case bool:
			b = strconv.AppendBool(b, v)
		case raw:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("sqlstore: an argument has the type %T, which the store cannot send to MySQL", v))
		}
	}
	return string(append(b, text...))
}

func literal(b, v []byte) []byte {
	return append(hex.AppendEncode(append(b, "x'"...), v), '\'')
}

// mysqlRecord returns the values of mysqlFields or mysqlKeep, followed by the scope and the key.
func mysqlRecord(c store.Change) []any {
	return append(fields(c), c.ID.Scope, c.ID.Key)
}
