package sqlguard

// commits reports whether MySQL or MariaDB commits the open transaction when it runs a statement that begins with keyword. The
// lexer has read up to the keyword.
// https://dev.mysql.com/doc/refman/8.4/en/implicit-commit.html
func (p *parser) commits(keyword string) bool {
	switch keyword {
	case "ALTER", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "LOCK", "UNLOCK", "OPTIMIZE", "REPAIR", "FLUSH",
		"INSTALL", "UNINSTALL", "CHANGE", "STOP", "CHECK", "CACHE", "IMPORT", "CLONE", "BACKUP":
		return true
	case "CREATE", "DROP":
		t := p.inside()
		if t.is("OR") { // OR REPLACE
			p.inside()
			t = p.inside()
		}
		return !t.is("TEMPORARY") && !t.is("PREPARE")
	case "ANALYZE": // MariaDB also explains statements with ANALYZE
		t := p.inside()
		return t.is("TABLE") || t.is("LOCAL") || t.is("NO_WRITE_TO_BINLOG")
	case "RESET":
		return !p.inside().is("PERSIST")
	case "LOAD":
		return p.inside().is("INDEX")
	case "SET":
		return p.setCommits()
	default:
		return false
	}
}

// setCommits reports whether SET, whose keyword was read, ends the transaction. It does so if it switches autocommit on, or
// changes an account.
func (p *parser) setCommits() bool {
	t := p.inside()
	if t.is("PASSWORD") || t.is("DEFAULT") {
		return true
	}
	for ; !t.ends(); t = p.inside() {
		// autocommit = 1 commits. The value may be an expression, so every assignment counts.
		if name, ok := MySQL.fold(t); ok && name == "autocommit" {
			return true
		}
	}
	return false
}
