package sqlguard

import (
	"context"
	"database/sql/driver"
	"io"
	"slices"
	"strings"
)

// Several statements in one packet are one round trip, and the server stops at the first failed statement. So BEGIN is sent with
// the first statement of a transaction, and COMMIT with the statements around it. A text of the user must not contain several
// statements. If it may contain a second statement, it is prepared first, and a server prepares only one statement, whatever
// its sql_mode says about quotes.

// TakesSeveral reports whether the server accepts several statements in a packet on the connections of this pool. If it does, the
// guard uses such packets from now on.
func (s Session) TakesSeveral(ctx context.Context) (bool, error) {
	err := s.conn.run(ctx, "DO 0; DO 0")
	// This is how a server answers that accepts only one statement.
	if code, _ := MySQLCode(err); code == mysqlSyntax {
		return false, nil
	}
	if err == nil {
		s.conn.from.several.Store(true)
	}
	return err == nil, err
}

// takesSeveral reports whether the guard uses packets with several statements on this connection.
func (c *conn) takesSeveral() bool { return c.dialect == MySQL && c.from.several.Load() }

// series runs statements until one fails.
func (c *conn) series(ctx context.Context, statements ...string) error {
	if c.takesSeveral() {
		statements = []string{strings.Join(statements, "; ")}
	}
	for _, statement := range statements {
		if err := c.run(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// open begins the transaction if its BEGIN was delayed until the first statement.
func (c *conn) open(ctx context.Context) error {
	if c.tx == nil || len(c.tx.pending) == 0 {
		return nil
	}
	begin := c.tx.pending
	c.tx.pending = nil
	err := c.series(ctx, begin...)
	if err == nil {
		return nil
	}
	c.tx.txn.openingFailed = err
	return c.tx.txn.failed(begin[0], err)
}

// opening returns query. If the BEGIN was delayed, its statements come before query.
func (c *conn) opening(query string) string {
	if c.tx == nil || len(c.tx.pending) == 0 {
		return query
	}
	return strings.Join(c.tx.pending, "; ") + "; " + query
}

// opened records that the text of opening was sent, unless the driver wants to prepare the text.
func (c *conn) opened(err error) {
	if c.tx == nil || len(c.tx.pending) == 0 || err == driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
		return
	}
	c.tx.pending = nil
	c.tx.txn.openingFailed = err
}

type ownTextKey struct{}

// OwnText returns a context for texts of the store itself that contain several statements.
func OwnText(ctx context.Context) context.Context { return context.WithValue(ctx, ownTextKey{}, true) }

// Unopened reports whether the transaction was rolled back before any of its statements was sent, including the statements of
// [Txn.Opening].
func (t *Txn) Unopened() bool { return t.real().unopened }

// OpeningFailed returns the error of the packet that opened the transaction, whichever of its statements has failed.
func (t *Txn) OpeningFailed() error { return t.real().openingFailed }

// sendable returns an error unless a statement of a guarded transaction may be sent as a text.
func (c *conn) sendable(ctx context.Context, t *Txn, cmd command, query string, args []driver.NamedValue) error {
	if err := c.refused(ctx, t, cmd); err != nil {
		return err
	}
	if c.prepares(query, args) {
		return driver.ErrSkip
	}
	if err := c.oneStatement(ctx, t, query); err != nil {
		return err
	}
	// Together with the BEGIN, the statement might not fit in a packet, although it fits alone.
	if size(query, args) > maxOpening {
		return c.open(ctx)
	}
	return nil
}

// maxOpening limits the size of a statement that is sent together with the BEGIN. So the BEGIN never makes it too large for a
// packet.
const maxOpening = 64 << 10

// size returns the size of a statement. It counts only the parts that can be large.
func size(query string, args []driver.NamedValue) int {
	n := len(query)
	for _, arg := range args {
		switch v := arg.Value.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// prepares reports whether a statement must be prepared, with its arguments sent separately. Otherwise the driver may write the
// arguments into the text in another way than the server reads them. This happens in a charset in which a backslash can be
// the second byte of a character (the handler may have set it), and after a backslash, which is not an escape everywhere
// with ANSI_QUOTES.
func (c *conn) prepares(query string, args []driver.NamedValue) bool {
	return len(args) > 0 && (c.unquotable || (c.from.alone || c.takesSeveral()) && (c.broken || strings.IndexByte(query, '\\') >= 0))
}

// checkCharset finds out whether the driver can write arguments into texts on this connection. The driver knows only the
// configured collation. The data source name, or init_connect of the server, can set another charset.
func (c *conn) checkCharset(ctx context.Context) error {
	if !c.from.alone || c.queryer == nil {
		return nil
	}
	rows, err := c.queryer.QueryContext(ctx, "SELECT @@character_set_client", nil)
	if err != nil {
		return err
	}
	row := make([]driver.Value, 1)
	if err = rows.Next(row); err == io.EOF { //nolint:errorlint // the end of rows, as drivers say it
		err = nil
	}
	charset := strings.ToLower(number(row[0]))
	c.unquotable = !slices.ContainsFunc(quotable, func(family string) bool { return strings.HasPrefix(charset, family) })
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return err
}

// quotable contains the charsets, by the beginning of their names, in which an ASCII byte is never a part of another character.
var quotable = []string{"utf8", "latin", "ascii", "binary", "cp125", "koi8"} //nolint:gochecknoglobals // a constant table

// ready returns an error unless a prepared statement of a guarded transaction may be executed. For a statement that is sent as a
// text, see sendable.
func (c *conn) ready(ctx context.Context, t *Txn, cmd command) error {
	if err := c.refused(ctx, t, cmd); err != nil {
		return err
	}
	return c.open(ctx)
}

// mysqlUnpreparable is the error for a text that is one statement but cannot be prepared.
const mysqlUnpreparable = 1295

// oneStatement returns the error of the server if a text contains several statements.
func (c *conn) oneStatement(ctx context.Context, t *Txn, query string) error {
	if c.dialect != MySQL || !c.from.alone && (t == nil || !c.takesSeveral()) || ctx.Value(ownTextKey{}) != nil ||
		strings.IndexByte(strings.TrimRight(query, "; \t\r\n"), ';') < 0 {
		return nil
	}
	s, err := prepare(ctx, c.base, query)
	// The server has parsed it as one statement, so it is harmless.
	if code, _ := MySQLCode(err); code == mysqlUnpreparable {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// commitMySQL commits a transaction that the guard has begun.
func (tx *transaction) commitMySQL(ctx context.Context) error {
	c, t := tx.conn, tx.txn
	statements := tx.pending
	if tx.hasMark() {
		statements = append(statements, releaseMark)
	}
	tx.pending = nil
	if !c.takesSeveral() {
		return c.series(ctx, append(statements, "COMMIT")...)
	}
	list := make([]textArgs, 0, len(statements)+len(t.last)+2)
	for _, statement := range statements {
		list = append(list, textArgs{text: statement})
	}
	for _, last := range t.last {
		statement := textArgs{text: last.Text}
		for i, value := range last.Args {
			arg := driver.NamedValue{Ordinal: i + 1, Value: value}
			if err := c.convert(&arg); err != nil {
				return &unsentError{err}
			}
			statement.args = append(statement.args, arg)
		}
		list = append(list, statement)
	}
	// COMMIT comes last, so that nothing is committed if an earlier statement fails.
	list = append(list, textArgs{text: "COMMIT"})
	if after := t.doesAfter(""); after != "" {
		list = append(list, textArgs{text: after})
	}
	err := c.packet(ctx, list)
	if err == nil {
		t.isDoneAfter()
	}
	return err
}

// textArgs is a statement with its arguments.
type textArgs struct {
	text string
	args []driver.NamedValue
}

// packet runs statements in one packet. If the driver cannot write an argument into the text, because it is too large or missing,
// the statements are prepared, and each is sent in a separate packet.
func (c *conn) packet(ctx context.Context, list []textArgs) error {
	var texts []string
	var args []driver.NamedValue
	for _, statement := range list {
		texts = append(texts, statement.text)
		for _, arg := range statement.args {
			arg.Ordinal = len(args) + 1
			args = append(args, arg)
		}
	}
	if text := strings.Join(texts, "; "); !c.prepares(text, args) {
		if _, err := c.exec(ctx, text, args); err != driver.ErrSkip { //nolint:errorlint // database/sql compares it in the same way
			return err
		}
	}
	for _, statement := range list {
		if err := c.runArgs(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// runArgs does the same as run, for a prepared statement with arguments.
func (c *conn) runArgs(ctx context.Context, statement textArgs) error {
	if len(statement.args) == 0 {
		return c.run(ctx, statement.text)
	}
	base, err := prepare(ctx, c.base, statement.text)
	if err != nil {
		return err
	}
	_, err = base.ExecContext(ctx, statement.args)
	if closed := base.Close(); err == nil {
		err = closed
	}
	return err
}

// unsentError says that the driver does not accept an argument, so nothing was sent.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// rollbackPacket rolls back, and evaluates the expressions of DoAfter. It reports whether some writes were not undone.
func (tx *transaction) rollbackPacket(ctx context.Context) (incomplete bool, err error) {
	c, t := tx.conn, tx.txn
	statements := []string{"ROLLBACK", "SHOW WARNINGS"}
	if tx.hasMark() {
		statements = append([]string{releaseMark}, statements...)
	}
	if after := t.doesAfter("@@warning_count = 0"); after != "" { // not while undone writes must still be recorded
		statements = append(statements, after)
	}
	rows, err := c.queryer.QueryContext(ctx, strings.Join(statements, "; "), nil)
	if err != nil {
		return false, err
	}
	incomplete, warnings := incompletely(rows)
	if next, ok := rows.(driver.RowsNextResultSet); ok && next.HasNextResultSet() {
		if err = next.NextResultSet(); err == io.EOF { //nolint:errorlint // the end of results, as drivers say it
			err = nil
		}
	}
	if closed := rows.Close(); err == nil {
		err = closed
	}
	// With warnings, the expressions of DoAfter were not evaluated: writes that remain must be recorded first.
	if err == nil && !warnings {
		t.isDoneAfter()
	}
	return err == nil && incomplete && !c.onlyTemporary(ctx, t), err
}
