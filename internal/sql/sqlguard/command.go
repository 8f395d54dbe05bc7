package sqlguard

import (
	"strings"
	"unicode/utf8"
)

// verb is the effect of a text on the transaction.
type verb uint8

const (
	ordinary verb = iota
	setSavepoint
	releaseSavepoint
	rollbackTo
	transactionControl // begins or ends a transaction, or may do so
	implicitCommit     // MySQL commits before it runs this
)

// command is the knowledge of the guard about a text before it runs.
type command struct {
	verb verb
	name string // the name of the savepoint, in the form in which equal names are equal strings
}

// Ends reports whether a text begins or ends a transaction, or may do so. It is for code with its own driver. It ignores
// savepoints, which the database checks.
func (d Dialect) Ends(text string) bool {
	p := parser{lexer{text: text, dialect: d}}
	for more := true; more; {
		var cmd command
		if cmd, _, more = p.statement(); cmd.verb >= transactionControl {
			return true
		}
	}
	return false
}

// parse classifies a text. If the text is a batch of several statements, savepoints in it count as transaction control: after
// an error in the middle, the guard would not know which savepoints exist.
func (d Dialect) parse(text string) command {
	p := parser{lexer{text: text, dialect: d}}
	var found command
	statements := 0
	for {
		cmd, empty, more := p.statement()
		if !empty {
			statements++
		}
		// The most restrictive statement of the text decides.
		if cmd.verb > found.verb {
			found = cmd
		}
		if !more {
			break
		}
	}
	if statements > 1 && found.verb != ordinary && found.verb != implicitCommit {
		return command{verb: transactionControl}
	}
	return found
}

type parser struct{ lexer }

// inside returns the next token of the statement. It does not move past a semicolon.
func (p *parser) inside() token {
	t := p.next()
	if t.kind == tokenSemicolon {
		p.pos--
	}
	return t
}

// statement classifies the next statement and moves past it. more is false if no further statement can follow.
func (p *parser) statement() (cmd command, empty, more bool) {
	first := p.inside()
	creates := false
	if first.kind == tokenWord {
		creates = first.is("CREATE")
		cmd = p.command(first)
	}
	return cmd, first.kind == tokenEnd || first.kind == tokenSemicolon, p.rest(creates)
}

// command classifies a statement by its first word and the words after it.
func (p *parser) command(first token) command {
	var buffer [longestKeyword]byte
	switch keyword := upper(buffer[:0], first.text); string(keyword) {
	case "BEGIN", "START", "COMMIT", "END", "ABORT", "XA":
		return command{verb: transactionControl}
	case "SAVEPOINT":
		return p.named(setSavepoint, p.inside())
	case "RELEASE":
		return p.named(releaseSavepoint, p.inside())
	case "ROLLBACK": // [WORK | TRANSACTION] [TO [SAVEPOINT] name]
		t := p.inside()
		if t.is("WORK") || t.is("TRANSACTION") {
			t = p.inside()
		}
		if !t.is("TO") {
			return command{verb: transactionControl}
		}
		return p.named(rollbackTo, p.inside())
	case "PREPARE":
		if p.dialect == PostgreSQL && p.inside().is("TRANSACTION") { // the first phase of a two-phase commit
			return command{verb: transactionControl}
		}
	default:
		if p.dialect != MySQL {
			break
		}
		// SET STATEMENT ... FOR runs another statement, which decides.
		if inner, ok := p.setStatement(string(keyword)); ok {
			return p.command(inner)
		}
		if p.commits(string(keyword)) {
			return command{verb: implicitCommit}
		}
	}
	return command{}
}

// named classifies a command on a savepoint. t is the name of the savepoint, or the word SAVEPOINT before the name. If the name
// cannot be read with certainty, the command counts as transaction control, which is refused.
func (p *parser) named(v verb, t token) command {
	next := p.inside()
	if v != setSavepoint && t.is("SAVEPOINT") && !next.ends() {
		t, next = next, p.inside()
	}
	name, ok := p.dialect.fold(t)
	if !ok || !next.ends() {
		return command{verb: transactionControl}
	}
	return command{verb: v, name: name}
}

// rest moves past the end of the statement. Semicolons inside the body of a created object do not end the statement: functions
// of PostgreSQL have BEGIN ATOMIC ... END, and triggers of SQLite have BEGIN ... END.
func (p *parser) rest(creates bool) (more bool) {
	// Most texts have no semicolon, and need no further lexing.
	if strings.IndexByte(p.text[p.pos:], ';') < 0 {
		p.pos = len(p.text)
		return false
	}
	depth, trigger := 0, false
	for previous := (token{}); ; {
		t := p.next()
		switch {
		case t.kind == tokenEnd:
			return false
		case t.kind == tokenSemicolon && depth == 0:
			return true
		case !creates:
		case t.is("TRIGGER"):
			trigger = p.dialect == SQLite
		case depth == 0 && trigger && t.is("BEGIN"),
			depth == 0 && previous.is("BEGIN") && t.is("ATOMIC"),
			depth > 0 && t.is("CASE"):
			depth++
		case depth > 0 && t.is("END"):
			depth--
		}
		previous = t
	}
}

// fold returns the name of a savepoint in the form in which the database compares names.
func (d Dialect) fold(t token) (name string, ok bool) {
	name = t.text
	switch {
	case t.kind == tokenWord:
	case t.kind == tokenQuoted, t.kind == tokenString && d == SQLite:
		// In MySQL the meaning of a backslash depends on sql_mode.
		if d == MySQL && strings.ContainsRune(name, '\\') {
			return "", false
		}
		closing := name[len(name)-1:]
		name = strings.ReplaceAll(name[1:len(name)-1], closing+closing, closing)
	default:
		return "", false
	}
	switch d {
	case PostgreSQL:
		if t.kind == tokenWord {
			name = lowerASCII(name)
		}
		for len(name) > longestName { // PostgreSQL truncates the name between two characters
			_, size := utf8.DecodeLastRuneInString(name)
			name = name[:len(name)-size]
		}
	case SQLite:
		name = lowerASCII(name)
	default:
		name = strings.ToLower(name)
	}
	return name, true
}

func (t token) is(keyword string) bool {
	return t.kind == tokenWord && len(t.text) == len(keyword) && strings.EqualFold(t.text, keyword)
}

// ends reports whether the token ends the statement.
func (t token) ends() bool { return t.kind == tokenEnd || t.kind == tokenSemicolon }

const (
	longestKeyword = 16 // in bytes, with some reserve
	longestName    = 63 // in bytes, in PostgreSQL
)

// upper appends a word in capitals. It cuts a word that is longer than every keyword.
func upper(to []byte, word string) []byte {
	for i := 0; i < len(word) && i < longestKeyword; i++ {
		c := word[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
