package hold

import "strings"

// StillHeld returns a condition for a statement, in the words of package dialect, and its arguments. The condition holds if
// column is the number of one of parts of table ([Config].Table), and no other process has taken this part since. If the
// statement runs in a separate transaction ([sqlplane.Database.Pool]), no process can take the part between the check and the
// change, and a stopped process keeps no lock. In a longer transaction, no process can take the part until the transaction
// ends.
func StillHeld(table, work, column string, parts []Part) (condition string, args []any) {
	if len(parts) == 0 {
		return "1 = 0", nil
	}
	query, args := Locked(table, work, parts)
	return column + " in (" + query + ")", args
}

// Locked returns a query, similar to [StillHeld], for a transaction of several statements. The query returns the numbers of
// those parts that no other process has taken. No process can take them until the transaction ends. parts must not be empty.
func Locked(table, work string, parts []Part) (query string, args []any) {
	// The rows are locked in this order, so that two transactions do not deadlock.
	return "select part from " + table + " where work = ? and (part = ? and fence = ?" +
		strings.Repeat(" or part = ? and fence = ?", len(parts)-1) + ") order by part FOR SHARE", fenced(work, parts)
}

// fenced returns the arguments work, part, fence, part, fence and so on.
func fenced(work string, parts []Part) []any {
	args := []any{work}
	for _, p := range parts {
		args = append(args, p.Number, p.Fence)
	}
	return args
}
