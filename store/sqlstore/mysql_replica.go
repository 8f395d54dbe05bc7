package sqlstore

import (
	"errors"

	"github.com/oncelib/once/store"
)

// A replica lags behind: a missing record proves nothing there, and a user with the right to
// write could claim an operation that the primary has executed. A primary that was set to read_only
// may lack records of its successor. So nothing is claimed on either, and neither is asked for a
// record that must be durable.

// mysqlReplica is whether the server is set to read_only, or to innodb_read_only, which is set on a reader of Aurora.
// read_only is compared as a word because newer releases of MariaDB have several kinds of it. super_read_only of MySQL sets read_only, too.
const mysqlReplica = "(concat(@@read_only) not in ('OFF', '0') or @@innodb_read_only)"

// mariadbReplica is mysqlReplica, or whether the server applies the commits of another
// server: a replica need not be read_only. That takes the server some 0.4 ms, so it is
// asked only where replays must be durable and where a commit was lost.
const mariadbReplica = mysqlReplica + " or exists (select 1 from information_schema.global_status where variable_name = 'SLAVES_RUNNING' and variable_value <> '0')"

var errReplica = errors.New("this MySQL server is a replica, or the server or the session is read-only, so its data may be old. Try: the address of the primary only")

// replica is the condition under which a server must not answer the request.
func (s *Store) replica(opts store.BeginOptions) string {
	if opts.Durable && s.compound {
		return mariadbReplica
	}
	if !s.compound {
		return mysqlReplica + " or @@transaction_read_only"
	}
	return mysqlReplica
}

// readOnlyWord is replica for callers that compare the word themselves: OFF and 0 mean no replica. That is less work for the server.
func (s *Store) readOnlyWord(opts store.BeginOptions) string {
	switch {
	case !s.compound:
		return "@@read_only or @@innodb_read_only or @@transaction_read_only"
	case opts.Durable:
		return mariadbReplica
	}
	return "@@read_only"
}

// stateReplica is the state of a row that no operation has.
const stateReplica store.State = 255

// lookMySQL is the statement that looks an operation up. On a replica it returns a row with stateReplica:
// in place of the record if the record must be durable, else if no record
// exists.
func (s *Store) lookMySQL(opts store.BeginOptions) string {
	replica := "select 255, 0, '', null, 0, 0, null, null, null, '', '', '', 0, null, 0, 0, 0 from dual where " + s.replica(opts)
	look := fill(mysqlRead, opts.ID.Scope, opts.ID.Key)
	if opts.Durable {
		return replica + " union all " + look
	}
	return look + " union all " + replica
}
