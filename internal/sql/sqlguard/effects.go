package sqlguard

// SQLiteEffects reports whether a text of SQLite only reads, and whether it contains a PRAGMA.
func SQLiteEffects(text string) (reads, pragma bool) {
	p := parser{lexer{text: text, dialect: SQLite}}
	reads = true
	for more := true; more; {
		first := p.inside()
		switch {
		case first.is("PRAGMA"):
			// A PRAGMA may write or change the connection, whatever its name says.
			reads, pragma = false, true
		// A WITH clause may end in an INSERT, UPDATE or DELETE.
		case first.is("WITH"):
			reads = reads && p.reads()
		case !first.ends() && !first.is("SELECT") && !first.is("VALUES") && !first.is("EXPLAIN"):
			reads = false
		}
		more = p.rest(first.is("CREATE"))
	}
	return reads, pragma
}

// reads reports whether no word in the rest of the statement writes.
func (p *parser) reads() bool {
	for t := p.inside(); !t.ends(); t = p.inside() {
		if t.is("INSERT") || t.is("UPDATE") || t.is("DELETE") || t.is("REPLACE") || t.is("MERGE") || t.is("INTO") {
			return false
		}
	}
	return true
}
