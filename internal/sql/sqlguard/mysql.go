package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
)

// mark is a savepoint that disappears if the transaction was ended without the guard. MySQL reports success for COMMIT and
// ROLLBACK even outside a transaction. See markBefore.
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

// Opening sets statements that run just before BEGIN, in the same round trip. The server must accept several statements in a
// packet. If one fails, the later ones do not run. If the transaction sends nothing before its rollback, neither these
// statements nor the expressions of [Txn.DoAfter] run.
func (t *Txn) Opening(statements ...string) { t.opening = statements }

// Last adds statements that run just before COMMIT, in the same round trip if the server accepts several statements in a packet.
// Commit returns their errors.
func (t *Txn) Last(statements ...Statement) { t.last = append(t.last, statements...) }

// beginMySQL returns the statements that open a guarded transaction. An isolation level needs a separate statement.
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

// HasCompounds reports whether the server has compound statements outside procedures, as MariaDB has.
func (s Session) HasCompounds(ctx context.Context) (bool, error) {
	err := s.conn.run(ctx, "BEGIN NOT ATOMIC DO 0; END")
	if code, _ := MySQLCode(err); code == mysqlSyntax {
		return false, nil
	}
	return err == nil, err
}

// These are error numbers of MySQL.
const (
	mysqlSyntax      = 1064
	mysqlNoSavepoint = 1305
)

// mysqlRefusals contains errors which prove that nothing was committed. After other errors of COMMIT the outcome is not known
// (1180, 1053, 1317, 1927, errors of the binary log), and no complete list of them exists. After 3100 and 3101, errors of
// group replication, it is not known either: a member that leaves its group refuses a transaction that the other members may
// apply.
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
	1153, // the packet is too large, and only its head was read
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
	1690, // out of range: an assertion in a packet has failed
	1792, // transaction is read only
	1836, // server is in read-only mode
}

// mysqlFatal contains errors after which the transaction has ended, or may have ended; 1205 does so with
// innodb_rollback_on_timeout.
var mysqlFatal = []int{1205, 1206, 1213, 1020, 1614} //nolint:gochecknoglobals // a constant table

// endsTransaction reports whether a statement with this error has ended the transaction, or may have ended it.
func endsTransaction(err error) bool {
	code, ok := MySQLCode(err)
	return ok && slices.Contains(mysqlFatal, code)
}

// setStatement reports whether a SET, whose keyword was read, is MariaDB's SET STATEMENT variable = value, ... FOR statement. It
// then returns the first word of that statement. Otherwise it reads nothing.
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
