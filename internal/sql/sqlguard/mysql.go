package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
)

// mark is a savepoint that is gone when the transaction was ended underneath: MySQL itself
// takes COMMIT and ROLLBACK outside of transactions for successes. See markBefore.
const (
	mark        = "once_begun"
	setMark     = "SAVEPOINT " + mark
	releaseMark = "RELEASE SAVEPOINT " + mark
)

// Statement is a statement with its arguments.
type Statement struct {
	Text string
	Args []any
}

// Opening sets statements to run right before BEGIN, in its round trip, for which the server must take several in a packet. If one fails,
// no later one is run. If the transaction sends nothing before its rollback, they are not run, nor are the expressions of [Txn.DoAfter].
func (t *Txn) Opening(statements ...string) { t.opening = statements }

// Last adds statements to run right before COMMIT, in its round trip if the server takes several in a packet. Their errors are returned by Commit.
func (t *Txn) Last(statements ...Statement) { t.last = append(t.last, statements...) }

// beginMySQL returns the statements that open a guarded transaction. An isolation level
// needs one of its own.
func beginMySQL(opts driver.TxOptions) (statements []string, err error) {
	switch level := sql.IsolationLevel(opts.Isolation); level {
	case sql.LevelDefault:
	case sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
		statements = append(statements, "SET TRANSACTION ISOLATION LEVEL "+strings.ToUpper(level.String()))
	default:
		return nil, fmt.Errorf("once: MySQL has no isolation level %s", level)
	}
	start := "START TRANSACTION"
	if opts.ReadOnly {
		start += " READ ONLY"
	}
	return append(statements, start), nil
}

// HasCompounds reports whether the server has compound statements outside of procedures, as MariaDB has.
func (s Session) HasCompounds(ctx context.Context) (bool, error) {
	err := s.conn.run(ctx, "BEGIN NOT ATOMIC DO 0; END")
	if code, _ := MySQLCode(err); code == mysqlSyntax {
		return false, nil
	}
	return err == nil, err
}

// Numbers of MySQL's errors.
const (
	mysqlSyntax      = 1064
	mysqlNoSavepoint = 1305
)

// mysqlRefusals are errors that prove that nothing was committed. After other errors of
// COMMIT the outcome is open (1180, 1053, 1317, 1927, errors of the binary log), and
// no complete list of them exists. After 3100 and 3101, errors of a group of servers, it is open as
// well: a member that leaves its group refuses a transaction that the other members may apply.
var mysqlRefusals = []int{ //nolint:gochecknoglobals // a constant table
	1020, // record has changed since last read
	1048, // column cannot be null
	1054, // no such column
	1062, // duplicate entry
	1064, // syntax
	1114, // table is full
	1136, // another number of columns than of values
	1142, // no privilege
	1146, // no such table
	1153, // a packet that is too large, of which only the head was read
	1205, // lock wait timeout
	1213, // deadlock
	1264, // out of range
	1290, // server runs with --read-only
	1305, // no such savepoint
	1364, // column has no default
	1366, // no value of this type
	1406, // data too long
	1451, // a parent row is referenced
	1452, // a child row has no parent
	1644, // SIGNAL
	1690, // out of range, as an assertion of a packet that fails
	1792, // transaction is read only
	1836, // server is in read-only mode
}

// mysqlFatal are errors after which the transaction is gone, or may be: the first by
// innodb_rollback_on_timeout.
var mysqlFatal = []int{1205, 1206, 1213, 1020, 1614} //nolint:gochecknoglobals // a constant table

// endsTransaction reports whether the transaction is gone with a statement that has failed so, or may be.
func endsTransaction(err error) bool {
	code, ok := MySQLCode(err)
	return ok && slices.Contains(mysqlFatal, code)
}

// setStatement reports whether SET, of which the keyword has been read, is MariaDB's
// SET STATEMENT variable = value, ... FOR statement, and returns the first word of that
// statement. Otherwise nothing has been read.
func (p *parser) setStatement(keyword string) (first token, ok bool) {
	if keyword != "SET" {
		return token{}, false
	}
	start := p.pos
	if t := p.inside(); t.is("STATEMENT") {
		for !t.ends() {
			if t = p.inside(); t.is("FOR") {
				return p.inside(), true
			}
		}
	}
	p.pos = start
	return token{}, false
}
