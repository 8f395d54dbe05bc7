package sqlguard

import (
	"context"
	"slices"
	"strings"
)

// A guarded transaction of MySQL that is ended underneath, by a procedure for example, is found
// out by a savepoint, the mark, which is gone then. It is set before the first statement that may end
// a transaction: most transactions have no such statement. If an older savepoint
// is released or rolled back to, the mark is gone, too; but that this was possible proves that the transaction
// has not ended.

// BeforeMark has write called before the first statement that may end the transaction, and before the mark is
// set, if it is not set yet: its writes are committed if that statement commits the transaction. If it fails, the
// statement is not run. MySQL and MariaDB only.
func (t *Txn) BeforeMark(write func(ctx context.Context, s Session) error) { t.beforeMark = write }

// WroteBeforeMark reports whether the transaction has the writes of the function of [Txn.BeforeMark]: it
// was called, and no rollback to a savepoint has undone them.
func (t *Txn) WroteBeforeMark() bool { return t.real().wroteBeforeMark }

// HasMark reports whether the mark was set after the transaction had begun.
func (t *Txn) HasMark() bool { return t.real().find(mark) >= 0 }

// CheckMark is a statement that fails if the transaction with the mark was ended.
const CheckMark = releaseMark

// DoAfter has MySQL evaluate an expression after COMMIT or ROLLBACK. If that
// fails, the connection ends.
func (t *Txn) DoAfter(expression string) {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	t.after = append(t.after, expression)
}

// DoNotAfter undoes the last [Txn.DoAfter], of the same expression.
func (t *Txn) DoNotAfter(expression string) {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	if n := len(t.after); n > 0 && t.after[n-1] == expression {
		t.after = t.after[:n-1]
	}
}

// doesAfter returns the statement that evaluates the expressions of DoAfter, each under a condition unless that is ""; "" without expressions.
func (t *Txn) doesAfter(condition string) string {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	if len(t.after) == 0 {
		return ""
	}
	expressions := slices.Clone(t.after)
	for i, e := range expressions {
		if condition != "" {
			expressions[i] = "IF(" + condition + ", " + e + ", 0)"
		}
	}
	return "DO " + strings.Join(expressions, ", ")
}

// isDoneAfter says that it was evaluated.
func (t *Txn) isDoneAfter() {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	t.after = nil
}

// DoesAfter reports whether an expression was set, see [Txn.DoAfter].
func (t *Txn) DoesAfter() bool { return t.doesAfter("") != "" }

// markBefore makes the write of beforeMark, and sets the mark, if query may end the transaction.
func (c *conn) markBefore(ctx context.Context, t *Txn, query string) error {
	writes := t.beforeMark != nil && !t.wroteBeforeMark
	marks := c.dialect == MySQL && t.find(mark) < 0
	if !writes && !marks || isPlain(query) {
		return nil
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	if writes {
		if err := t.beforeMark(ctx, Session{c}); err != nil {
			return t.failed(query, err)
		}
		t.wroteBeforeMark, t.beforeMarkAt = true, t.made
	}
	if !marks {
		return nil
	}
	if err := c.run(ctx, setMark); err != nil {
		return t.failed(setMark, err)
	}
	t.made++
	t.savepoints = append(t.savepoints, savepoint{name: mark, born: t.made})
	return nil
}

func (t *Txn) failed(query string, err error) error {
	t.fail(t.made, query, err)
	return err
}

// isPlain reports whether a text is for certain one statement of a kind that never ends a transaction
// of MySQL. It does not build on the lexer, which can be wrong about quoted text, because that depends on
// the sql_mode.
func isPlain(text string) bool {
	start := 0
	for start < len(text) && (text[start] == ' ' || text[start] >= '\t' && text[start] <= '\r') {
		start++
	}
	end := start
	for end < len(text) && isWordByte(text[end]) {
		end++
	}
	for i := end; i < len(text); i++ {
		if text[i] == ';' {
			return false
		}
	}
	var buffer [longestKeyword]byte
	switch string(upper(buffer[:0], text[start:end])) {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "VALUES", "DO", "SHOW", "SET",
		"SAVEPOINT", "RELEASE", "ROLLBACK": // the guard has judged the last four
		return true
	}
	return false
}

// doAfter evaluates the expressions of [Txn.DoAfter].
func (tx *transaction) doAfter() {
	c, t := tx.conn, tx.txn
	if t == nil || c.broken {
		return
	}
	after := t.doesAfter("")
	if after == "" {
		return
	}
	ctx, cancel := c.dialect.tail(tx.ctx)
	defer cancel()
	if err := c.run(ctx, after); err != nil {
		c.broken = true
	}
}
