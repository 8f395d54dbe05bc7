package sqlguard

// Ends reports whether a text begins or ends a transaction, or might: for those who have
// a driver of their own and nothing but texts to go by. Savepoints it leaves to the
// database.
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
