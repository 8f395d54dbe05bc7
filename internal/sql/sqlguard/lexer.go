package sqlguard

import "strings"

// lexer splits SQL into tokens, as far as this is needed to find statements and their first words. It never fails: the database
// itself rejects invalid SQL.
type lexer struct {
	text    string
	pos     int
	dialect Dialect
	inHint  bool // inside a comment that the server of MySQL executes
}

type tokenKind uint8

const (
	tokenEnd       tokenKind = iota
	tokenWord                // a keyword or a bare name
	tokenQuoted              // a name in quotes
	tokenString              // a literal in quotes or dollars
	tokenSemicolon           // the end of a statement
	tokenOther               // anything else, such as a quote that is never closed
)

type token struct {
	kind tokenKind
	text string
}

const byteOrderMark = "\ufeff" // SQLite treats it as a space

func (l *lexer) next() token {
	l.skipSpace()
	if l.pos >= len(l.text) {
		return token{kind: tokenEnd}
	}
	start := l.pos
	kind := l.scan()
	return token{kind, l.text[start:l.pos]}
}

// scan moves past one token.
func (l *lexer) scan() tokenKind {
	c := l.text[l.pos]
	switch {
	case c == ';':
		l.pos++
		return tokenSemicolon
	case c == '\'':
		return closedAs(tokenString, l.quoted('\'', l.dialect == MySQL))
	case c == '"':
		// In MySQL this is a string or, with ANSI_QUOTES, a name.
		return closedAs(tokenQuoted, l.quoted('"', l.dialect == MySQL))
	case c == '`' && l.dialect != PostgreSQL:
		return closedAs(tokenQuoted, l.quoted('`', false))
	case c == '[' && l.dialect == SQLite:
		return closedAs(tokenQuoted, l.after("]", l.pos))
	case c == '$' && l.dialect == PostgreSQL:
		return l.dollar()
	case isWordByte(c):
		start := l.pos
		for l.pos < len(l.text) && isWordByte(l.text[l.pos]) {
			l.pos++
		}
		// E'...' is a string in which a backslash is an escape.
		if l.dialect == PostgreSQL && strings.EqualFold(l.text[start:l.pos], "e") && l.at("'") {
			l.escapeString()
			return tokenString
		}
		return tokenWord
	default:
		l.pos++
		return tokenOther
	}
}

// closedAs returns kind for a token in quotes, or tokenOther if the quotes are not closed.
func closedAs(kind tokenKind, closed bool) tokenKind {
	if !closed {
		return tokenOther
	}
	return kind
}

// quoted moves past a token in quotes. Inside the token, the quote is doubled or, if escapes is true, has a backslash before it.
func (l *lexer) quoted(quote byte, escapes bool) (closed bool) {
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch c := l.text[l.pos]; {
		case escapes && c == '\\':
			l.pos++
		case c == quote:
			if l.pos+1 == len(l.text) || l.text[l.pos+1] != quote {
				l.pos++
				return true
			}
			l.pos++
		}
	}
	l.pos = len(l.text)
	return false
}

// escapeString moves past PostgreSQL's E'...'. If a line break separates several parts, every part has escapes.
func (l *lexer) escapeString() {
	for {
		l.quoted('\'', true)
		rest := strings.TrimLeft(l.text[l.pos:], " \t\n\r\f\v")
		space := l.text[l.pos : len(l.text)-len(rest)]
		if !strings.HasPrefix(rest, "'") || !strings.ContainsAny(space, "\n\r") {
			return
		}
		l.pos += len(space)
	}
}

// dollar moves past $tag$...$tag$, a parameter such as $1, or a lone dollar.
func (l *lexer) dollar() tokenKind {
	end := l.pos + 1
	for end < len(l.text) && isWordByte(l.text[end]) && l.text[end] != '$' {
		end++
	}
	tag := l.text[l.pos+1 : end]
	switch {
	// A parameter such as $1 is not the beginning of a quoted string.
	case tag != "" && isDigit(tag[0]):
		for l.pos++; l.pos < len(l.text) && isDigit(l.text[l.pos]); l.pos++ {
		}
		return tokenOther
	case end < len(l.text) && l.text[end] == '$':
		l.after(l.text[l.pos:end+1], end+1)
		return tokenString
	default:
		l.pos++
		return tokenOther
	}
}

// skipSpace moves past white space and comments.
func (l *lexer) skipSpace() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			l.pos++
		case c == '-' && l.at("--") && l.dashesComment():
			l.line()
		case c == '#' && l.dialect == MySQL:
			l.line()
		case c == '/' && l.at("/*"):
			l.comment()
		case c == '*' && l.inHint && l.at("*/"):
			l.inHint = false
			l.pos += len("*/")
		case c == byteOrderMark[0] && l.at(byteOrderMark):
			l.pos += len(byteOrderMark)
		default:
			return
		}
	}
}

// dashesComment reports whether two dashes begin a comment here. In MySQL they do so only before white space or a control
// character.
func (l *lexer) dashesComment() bool {
	next := l.pos + len("--")
	return l.dialect != MySQL || next == len(l.text) || l.text[next] <= ' ' || l.text[next] == 0x7f
}

// line moves to the end of the line.
func (l *lexer) line() {
	breaks := "\n"
	switch l.dialect {
	case PostgreSQL:
		breaks = "\n\r"
	case MySQL:
		breaks = "\n\x00"
	default:
	}
	if i := strings.IndexAny(l.text[l.pos:], breaks); i >= 0 {
		l.pos += i + 1
		return
	}
	l.pos = len(l.text)
}

// comment moves past a bracketed comment, or into one that MySQL executes. It is not known whether the server is new enough to
// execute the comment, so it counts as executed.
func (l *lexer) comment() {
	switch {
	case l.dialect == MySQL && (l.at("/*!") || l.at("/*M!") || l.at("/*m!")):
		l.inHint = true
		l.pos += strings.IndexByte(l.text[l.pos:], '!') + 1
		// A version number may follow, such as in /*!50000.
		for l.pos < len(l.text) && isDigit(l.text[l.pos]) {
			l.pos++
		}
	case l.dialect == PostgreSQL: // comments nest
		depth := 0
		for l.pos < len(l.text) {
			switch {
			case l.at("/*"):
				depth++
				l.pos += 2
			case l.at("*/"):
				depth--
				l.pos += 2
			default:
				l.pos++
			}
			if depth == 0 {
				return
			}
		}
	default:
		l.after("*/", l.pos+len("/*"))
	}
}

// after moves past the next occurrence of text after a position, or to the end.
func (l *lexer) after(text string, from int) (found bool) {
	if i := strings.Index(l.text[from:], text); i >= 0 {
		l.pos = from + i + len(text)
		return true
	}
	l.pos = len(l.text)
	return false
}

func (l *lexer) at(text string) bool { return strings.HasPrefix(l.text[l.pos:], text) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWordByte reports whether c can be a part of a bare name. The databases have different rules for the first byte of a name,
// but no keyword begins with a digit or a dollar.
func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}
