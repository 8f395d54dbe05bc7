package sqlguard

import (
	"context"
	"slices"
	"strings"
)

// A guarded transaction of MySQL may be ended without the guard, by a procedure for example. A savepoint, the mark, detects this,
// because it disappears with the transaction. The mark is set before the first statement that may end a transaction, and
// most transactions have no such statement. If an older savepoint is released or rolled back to, the mark disappears, too.
// But the success of this command proves that the transaction has not ended.

// BeforeMark sets a function that is called before the first statement that may end the transaction, and before the mark is set,
// if the mark is not set yet. If that statement commits the transaction, the writes of the function are committed, too. If the
// function fails, the statement is not run. Only for MySQL and MariaDB.
func (t *Txn) BeforeMark(write func(ctx context.Context, s Session) error) { t.beforeMark = write }

// WroteBeforeMark reports whether the transaction contains the writes of the function of [Txn.BeforeMark]: the function was
// called, and no rollback to a savepoint has undone its writes.
func (t *Txn) WroteBeforeMark() bool { return t.real().wroteBeforeMark }

// HasMark reports whether the mark was set.
func (t *Txn) HasMark() bool { return t.real().find(mark) >= 0 }

// CheckMark is a statement that fails if the transaction with the mark has ended.
const CheckMark = releaseMark

// DoAfter makes MySQL evaluate an expression after COMMIT or ROLLBACK. If this fails, the connection is closed.
func (t *Txn) DoAfter(expression string) {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	t.after = append(t.after, expression)
}

// DoNotAfter reverts the last [Txn.DoAfter] with the same expression.
func (t *Txn) DoNotAfter(expression string) {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	if n := len(t.after); n > 0 && t.after[n-1] == expression {
		t.after = t.after[:n-1]
	}
}

// doesAfter returns the statement that evaluates the expressions of DoAfter, or "" if no expressions exist. If condition is not empty,
// the expressions are evaluated only if the condition holds.
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

// isDoneAfter says that the expressions were evaluated.
func (t *Txn) isDoneAfter() {
	t = t.real()
	t.ending.Lock()
	defer t.ending.Unlock()
	t.after = nil
}

// DoesAfter reports whether [Txn.DoAfter] has set an expression.
func (t *Txn) DoesAfter() bool { return t.doesAfter("") != "" }

// markBefore calls the function of BeforeMark, and sets the mark, if query may end the transaction.
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

// isPlain reports whether a text is certainly one statement of a kind that never ends a transaction of MySQL. It does not use the
// lexer, which can be wrong about quoted text, because quotes depend on the sql_mode.
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
		"SAVEPOINT", "RELEASE", "ROLLBACK": // the guard has checked the last four kinds
		return true
	}
	return false
}

// doAfter evaluates the expressions of [Txn.DoAfter].
func (tx *transaction) doAfter() {
	c, t := tx.conn, tx.txn
	if t == nil || c.broken {
		// A broken connection is closed, which also releases its locks.
		return
	}
	after := t.doesAfter("")
	if after == "" {
		return
	}
	ctx, cancel := c.dialect.tail(tx.ctx)
	defer cancel()
	if err := c.run(ctx, after); err != nil {
		// The session may still hold the lock of the operation, so the pool must not keep it.
		c.broken = true
	}
}
