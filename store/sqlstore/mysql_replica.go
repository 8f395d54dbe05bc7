package sqlstore

import (
	"errors"

	"github.com/oncelib/once/store"
)

// A replica lags behind its primary, so a missing record on it proves nothing. A user who may write there could claim an
// operation that the primary has executed. A former primary with read_only may lack records of its successor. So no
// operation is claimed on either server, and neither returns a record that must be durable.

// mysqlReplica is true if the server has read_only or innodb_read_only set. A reader of Aurora has innodb_read_only.
// The value of read_only is compared as a word, because newer releases of MariaDB have several values. On MySQL,
// super_read_only also sets read_only.
const mysqlReplica = "(concat(@@read_only) not in ('OFF', '0') or @@innodb_read_only)"

// mariadbReplica is mysqlReplica, or true if the server applies the commits of another server: such a replica need not
// have read_only set. This costs the server about 0.4 ms, so it is only used where replays must be durable and after a
// lost commit.
const mariadbReplica = mysqlReplica + " or exists (select 1 from information_schema.global_status where variable_name = 'SLAVES_RUNNING' and variable_value <> '0')"

var errReplica = errors.New("this MySQL server is a replica, or the server or the session is read-only, so its data may be old. Try: the address of the primary only")

// replica returns the condition under which a server must not answer the request.
func (s *Store) replica(opts store.BeginOptions) string {
	if opts.Durable && s.compound {
		return mariadbReplica
	}
	if !s.compound {
		return mysqlReplica + " or @@transaction_read_only"
	}
	return mysqlReplica
}

// readOnlyWord is like replica, for callers that compare the word themselves: OFF and 0 mean that the server is no replica.
// This is less work for the server.
func (s *Store) readOnlyWord(opts store.BeginOptions) string {
	switch {
	case !s.compound:
		return "@@read_only or @@innodb_read_only or @@transaction_read_only"
	case opts.Durable:
		return mariadbReplica
	}
	return "@@read_only"
}

// stateReplica marks a row that is not a record: the server is a replica. No operation has this state.
const stateReplica store.State = 255

// lookMySQL returns the statement that looks an operation up. On a replica, the statement returns a row with
// stateReplica: in any case if the record must be durable, otherwise only if no record exists.
func (s *Store) lookMySQL(opts store.BeginOptions) string {
	replica := "select 255, 0, '', null, 0, 0, null, null, null, '', '', '', 0, null, 0, 0, 0 from dual where " + s.replica(opts)
	look := fill(mysqlRead, opts.ID.Scope, opts.ID.Key)
	if opts.Durable {
		return replica + " union all " + look
	}
	return look + " union all " + replica
}
