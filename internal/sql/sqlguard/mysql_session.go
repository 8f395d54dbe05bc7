package sqlguard

import (
	"context"
	"strings"
)

// If a handler changes its session, the next user of the connection would get the change: another database, sql_mode or isolation
// level, a lock of the session, a temporary table. The driver cannot reset the session. So the connection is closed instead
// of going back to the pool.

type leavesKey struct{}

// LeavesSession returns a context for statements of the store itself whose changes of the session are reverted at the end of the
// transaction: see [Txn.DoAfter].
func LeavesSession(ctx context.Context) context.Context {
	return context.WithValue(ctx, leavesKey{}, true)
}

// noteSession records whether a statement of a handler may change the session, and whether it may commit.
func (c *conn) noteSession(ctx context.Context, t *Txn, query string) {
	if c.dialect != MySQL || !t.commitForbidden.Load() || ctx.Value(leavesKey{}) != nil {
		return
	}
	if changesSession(query) {
		// The connection is closed after use, because the driver cannot reset the session.
		c.broken = true
		if contains(query, "temporary") {
			t.temporary.Store(true)
		}
	}
	if runsTexts(query) {
		t.opaque.Store(true)
	}
}

// Opaque reports whether the handler has run a procedure or dynamic SQL of MySQL, which may have committed.
func (t *Txn) Opaque() bool { return t.real().opaque.Load() }

// runsTexts reports whether a text of MySQL runs statements that the guard cannot read.
func runsTexts(text string) bool {
	p := parser{lexer{text: text, dialect: MySQL}}
	for more := true; more; more = p.rest(false) {
		first := p.inside()
		if inner, ok := p.setStatement(strings.ToUpper(first.text)); ok {
			first = inner
		}
		if first.is("CALL") || first.is("EXECUTE") {
			return true
		}
	}
	return false
}

// changesSession reports whether a text of MySQL changes the session beyond the transaction. It cannot see the changes of a
// procedure, and it ignores user variables.
func changesSession(text string) bool {
	p := parser{lexer{text: text, dialect: MySQL}}
	for more := true; more; more = p.rest(false) {
		if p.changes(p.inside()) {
			return true
		}
	}
	// GET_LOCK holds a lock of the session, and can be a part of any statement.
	return contains(text, "get_lock")
}

// releasesClaims reports whether a text releases the locks with which once holds its claims on MySQL.
func (c *conn) releasesClaims(t *Txn, query string) bool {
	return c.dialect == MySQL && t.DoesAfter() && releasesAllLocks(query)
}

// releasesAllLocks reports whether a text of MySQL calls RELEASE_ALL_LOCKS. It cannot see a call in a procedure or in dynamic
// SQL.
func releasesAllLocks(text string) bool {
	const function = "release_all_locks"
	if !contains(text, function) {
		return false
	}
	l := lexer{text: text, dialect: MySQL}
	for t := l.next(); t.kind != tokenEnd; {
		name, ok := l.dialect.fold(t)
		if t = l.next(); ok && name == function && t.text == "(" {
			return true
		}
	}
	return false
}

// changes does the work of changesSession for the statement that begins with first.
func (p *parser) changes(first token) bool {
	var buffer [longestKeyword]byte
	if first.kind != tokenWord {
		return false
	}
	switch keyword := upper(buffer[:0], first.text); string(keyword) {
	case "USE", "EXECUTE", "HANDLER": // EXECUTE may run any statement
		return true
	case "CREATE":
		t := p.inside()
		if t.is("OR") { // OR REPLACE
			p.inside()
			t = p.inside()
		}
		return t.is("TEMPORARY")
	case "SET":
		if inner, ok := p.setStatement(string(keyword)); ok {
			return p.changes(inner)
		}
		return p.sets()
	}
	return false
}

// sets reports whether SET, whose keyword was read, sets anything except user variables.
func (p *parser) sets() bool {
	depth, begins := 0, true // an assignment
	for t := p.inside(); !t.ends(); t = p.inside() {
		if begins {
			// "@name" is a user variable. "@@name", or a name without "@", is a setting of the session or the server.
			if t.text != "@" || p.inside().text == "@" {
				return true
			}
			begins = false
			continue
		}
		switch t.text {
		case "(":
			depth++
		case ")":
			depth--
		case ",":
			begins = depth == 0
		}
	}
	return false
}

// contains reports whether a text contains a word, in upper or lower case.
func contains(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}
