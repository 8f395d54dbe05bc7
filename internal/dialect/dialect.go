// Package dialect lets a capability write its SQL once for all databases.
//
// A query is written in lower case. What differs between databases is written in capitals, and
// [Text] replaces it:
//
//	?               an argument, in order
//	NOW             the database's clock, as it is stored
//	AGO(?)          the time that lies ? microseconds before NOW; after it if ? is negative
//	KEY             the column key, which is a reserved word of MySQL
//	FOR UPDATE      ends a select whose rows are to be changed
//	SKIP LOCKED     follows FOR UPDATE: rows that others have locked are left out
//	KEEP(a)         ends an insert: a row that exists stays as it is; a is any of its columns
//	UPSERT(a, b)    ends an insert: a row that exists with these values in columns a, b is updated; assignments follow
//	NEW(a)          in these assignments: the value of column a that could not be inserted
//
// In the assignments of UPSERT, a column of the row that exists is written with its table:
// "counter.n + 1". MySQL counts a row that UPSERT has updated as two.
//
// Times are timestamps on PostgreSQL and milliseconds since 1970 elsewhere: see [Time] and
// [StoredTime].
package dialect

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/oncelib/once/store"
)

// The clocks. None of them moves within one statement.
const (
	PostgreSQLNow = "statement_timestamp()"
	// MySQLNow is UTC: the clock of a session's time zone repeats or skips an hour twice a year.
	MySQLNow  = "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000)"
	SQLiteNow = "cast((julianday('now') - 2440587.5) * 86400000.0 as integer)"
)

// word is what Text replaces. A literal is found as a whole, so that nothing in it is replaced.
var word = regexp.MustCompile(`'[^']*'|\?|\bAGO\(\?\)|\bNOW\b|\bKEY\b|\bFOR UPDATE\b|\bSKIP LOCKED\b|\b(KEEP|UPSERT|NEW)\(([\w, ]+)\)`)

// Text returns query in the SQL of d.
func Text(d store.Dialect, query string) string {
	argument := arguments(d)
	return word.ReplaceAllStringFunc(query, func(found string) string {
		switch found {
		case "?":
			return argument()
		case "NOW":
			return now(d)
		case "AGO(?)":
			return ago(d, argument())
		case "KEY":
			return key(d)
		case "FOR UPDATE", "SKIP LOCKED":
			if d == store.SQLite { // a transaction that writes is alone
				return ""
			}
			return strings.ToLower(found)
		}
		if m := word.FindStringSubmatch(found); m[1] != "" {
			return conflict(d, m[1], strings.ReplaceAll(m[2], "KEY", key(d)))
		}
		return found // a literal
	})
}

// arguments returns a function that returns the next placeholder.
func arguments(d store.Dialect) func() string {
	n := 0
	return func() string {
		if d != store.PostgreSQL {
			return "?"
		}
		n++
		return "$" + strconv.Itoa(n)
	}
}

func now(d store.Dialect) string {
	switch d {
	case store.PostgreSQL:
		return PostgreSQLNow
	case store.MySQL:
		return MySQLNow
	}
	return SQLiteNow
}

func ago(d store.Dialect, microseconds string) string {
	switch d {
	case store.PostgreSQL:
		return "(" + PostgreSQLNow + " - " + microseconds + "::bigint * interval '1 microsecond')"
	case store.MySQL:
		return "(" + MySQLNow + " - " + microseconds + " div 1000)"
	}
	return "(" + SQLiteNow + " - " + microseconds + " / 1000)"
}

func key(d store.Dialect) string {
	if d == store.MySQL {
		return "`key`"
	}
	return "key"
}

// conflict returns the text of KEEP, UPSERT or NEW.
func conflict(d store.Dialect, what, columns string) string {
	mysql := d == store.MySQL
	switch {
	case what == "KEEP" && mysql:
		return "on duplicate key update " + columns + " = " + columns
	case what == "KEEP":
		return "on conflict do nothing"
	case what == "UPSERT" && mysql:
		return "on duplicate key update"
	case what == "UPSERT":
		return "on conflict (" + columns + ") do update set"
	case mysql:
		return "values(" + columns + ")"
	}
	return "excluded." + columns
}
