package hold

import "strings"

// StillHeld returns a condition of a statement, to be written by [dialect.Text], and its
// arguments: that column is one of parts of table ([Config].Table), and that no other process has taken that part since.
// Where the statement runs in a transaction of its own ([sqlplane.Database.Pool]), no part can be taken between the check
// and the change, and a process that is stopped keeps no lock. In a longer transaction, the part cannot be
// taken until that ends.
func StillHeld(table, work, column string, parts []Part) (condition string, args []any) {
	if len(parts) == 0 {
		return "1 = 0", nil
	}
	query, args := Locked(table, work, parts)
	return column + " in (" + query + ")", args
}

// Locked is a query, as [StillHeld] has it, for a transaction of several statements: it returns the numbers of the parts, at least one, that no other process has
// taken over, and no process can take them over until the transaction ends.
func Locked(table, work string, parts []Part) (query string, args []any) {
	// The order is that in which the rows are locked.
	return "select part from " + table + " where work = ? and (part = ? and fence = ?" +
		strings.Repeat(" or part = ? and fence = ?", len(parts)-1) + ") order by part FOR SHARE", fenced(work, parts)
}

// fenced are the arguments work, part, fence, part, fence ...
func fenced(work string, parts []Part) []any {
	args := []any{work}
	for _, p := range parts {
		args = append(args, p.Number, p.Fence)
	}
	return args
}
