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
// takes COMMIT and ROLLBACK outside of transactions for successes. On MariaDB every guarded
// transaction begins with it; for MySQL see markBefore.
const (
	mark        = "once_begun"
	setMark     = "SAVEPOINT " + mark
	releaseMark = "RELEASE SAVEPOINT " + mark
)

// Begun is the statement that a transaction must have run which is to be adopted.
const Begun = setMark

type adoptKey struct{}

// Adopt is Context for a MySQL transaction that its owner has begun already, by
// statements on the connection, the last of which is [Begun]: BeginTx sends nothing.
func (t *Txn) Adopt(ctx context.Context) context.Context {
	return context.WithValue(t.Context(ctx), adoptKey{}, true)
}

func adopts(ctx context.Context) bool { return ctx.Value(adoptKey{}) != nil }

// Last sets a statement to run right before COMMIT, in its round trip where the server
// is a MariaDB. Its error is one of COMMIT.
func (t *Txn) Last(statement string) { t.last = statement }

// beginMySQL returns the statements that open a guarded transaction. An isolation level
// needs one of its own.
func (c *conn) beginMySQL(opts driver.TxOptions) (statements []string, err error) {
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
	statements = append(statements, start)
	if c.single.Load() {
		return statements, nil
	}
	return append(statements, setMark), nil
}

// series runs statements until one fails. A MariaDB gets them in one compound
// statement; MySQL has such things in procedures only.
func (c *conn) series(ctx context.Context, statements ...string) error {
	if !c.single.Load() {
		err := c.run(ctx, compound(statements...))
		if code, _ := MySQLCode(err); code != mysqlSyntax {
			return err
		}
		c.single.Store(true)
	}
	for _, statement := range statements {
		if err := c.run(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// HasCompounds reports whether the server has compound statements outside of procedures, as MariaDB has.
func (s Session) HasCompounds(ctx context.Context) (bool, error) {
	err := s.conn.run(ctx, compound("DO 0"))
	if code, _ := MySQLCode(err); code == mysqlSyntax {
		s.conn.single.Store(true)
		return false, nil
	}
	return err == nil, err
}

func compound(statements ...string) string {
	return "BEGIN NOT ATOMIC " + strings.Join(statements, "; ") + "; END"
}

// Numbers of MySQL's errors.
const (
	mysqlSyntax      = 1064
	mysqlNoSavepoint = 1305
)

// mysqlRefusals are errors of which it is known that nothing was committed. COMMIT can
// meet others that leave it open (1180, 1053, 1317, 1927, those of the binary log), and
// there is no complete list of them. 3100 and 3101, those of a group of servers, leave it open as
// well: a member that leaves its group refuses what the other members may apply.
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
