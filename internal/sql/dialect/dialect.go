// Package dialect lets a capability write its SQL once for all databases.
//
// A query is written in lower case. [Text] replaces the words in capitals, which differ between databases:
//
//	?               an argument, in order
//	NOW             the database's clock, as it is stored
//	AGO(?)          the time that lies ? microseconds before NOW; after it if ? is negative
//	KEY             the column key, which is a reserved word of MySQL
//	FOR UPDATE      ends a select whose rows are to be changed
//	FOR SHARE       ends a select whose rows must not change before the transaction ends
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
	"strconv"
	"strings"

	"github.com/oncelib/once/store/sqlplane"
)

// These are the clocks of the databases. None of them advances within one statement.
const (
	PostgreSQLNow = "statement_timestamp()"
	// MySQLNow uses UTC, because the clock of a session's time zone repeats or skips one hour twice a year.
	MySQLNow  = "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000)"
	SQLiteNow = "cast((julianday('now') - 2440587.5) * 86400000.0 as integer)"
)

// Text returns query in the SQL of d.
func Text(d sqlplane.Dialect, query string) string {
	var w strings.Builder
	w.Grow(2 * len(query))
	argument := arguments(d)
	for at := 0; ; {
		n := strings.IndexAny(query[at:], "'?AFKNSU") // each of these characters may begin a word or a literal
		if n < 0 {
			w.WriteString(query[at:])
			return w.String()
		}
		w.WriteString(query[at : at+n])
		at += n
		text, length := replacement(d, query[at:], at > 0 && isWord(query[at-1]), argument)
		w.WriteString(text)
		at += length
	}
}

// replacement returns the replacement of the word at the beginning of query, and the length of this word. inWord says that
// query begins inside a word.
func replacement(d sqlplane.Dialect, query string, inWord bool, argument func() string) (text string, length int) {
	switch {
	case query[0] == '?':
		return argument(), 1
	case query[0] == '\'': // a literal is not changed
		length = 2 + strings.IndexByte(query[1:], '\'')
		return query[:max(1, length)], max(1, length)
	case inWord:
	case strings.HasPrefix(query, "AGO(?)"):
		return ago(d, argument()), len("AGO(?)")
	case begins(query, "NOW"):
		return now(d), len("NOW")
	case begins(query, "KEY"):
		return key(d), len("KEY")
	}
	for _, lock := range [...]string{"FOR UPDATE", "FOR SHARE", "SKIP LOCKED"} {
		if !inWord && begins(query, lock) {
			return locking(d, lock), len(lock)
		}
	}
	for _, what := range [...]string{"KEEP", "UPSERT", "NEW"} {
		columns, found := strings.CutPrefix(query, what+"(")
		if columns, _, closed := strings.Cut(columns, ")"); found && closed && !inWord {
			return conflict(d, what, strings.ReplaceAll(columns, "KEY", key(d))), len(what) + len(columns) + len("()")
		}
	}
	return query[:1], 1
}

// begins reports whether query begins with word, and not with a longer word.
func begins(query, word string) bool {
	return strings.HasPrefix(query, word) && (len(query) == len(word) || !isWord(query[len(word)]))
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// locking returns the text of FOR UPDATE, FOR SHARE or SKIP LOCKED.
func locking(d sqlplane.Dialect, what string) string {
	switch {
	case d == sqlplane.SQLite: // only one transaction of SQLite can write
		return ""
	case d == sqlplane.MySQL && what == "FOR SHARE": // MariaDB supports only the older syntax
		return "lock in share mode"
	}
	return strings.ToLower(what)
}

// arguments returns a function that returns the next placeholder.
func arguments(d sqlplane.Dialect) func() string {
	n := 0
	return func() string {
		if d != sqlplane.PostgreSQL {
			return "?"
		}
		n++
		return "$" + strconv.Itoa(n)
	}
}

func now(d sqlplane.Dialect) string {
	switch d {
	case sqlplane.PostgreSQL:
		return PostgreSQLNow
	case sqlplane.MySQL:
		return MySQLNow
	}
	return SQLiteNow
}

func ago(d sqlplane.Dialect, microseconds string) string {
	switch d {
	case sqlplane.PostgreSQL:
		return "(" + PostgreSQLNow + " - " + microseconds + "::bigint * interval '1 microsecond')"
	case sqlplane.MySQL:
		return "(" + MySQLNow + " - " + microseconds + " div 1000)"
	}
	return "(" + SQLiteNow + " - " + microseconds + " / 1000)"
}

func key(d sqlplane.Dialect) string {
	if d == sqlplane.MySQL {
		return "`key`"
	}
	return "key"
}

// conflict returns the text of KEEP, UPSERT or NEW.
func conflict(d sqlplane.Dialect, what, columns string) string {
	mysql := d == sqlplane.MySQL
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

// Tables returns the query that counts the tables with the name ?: 1 if the table exists, and otherwise 0. A statement that uses a missing
// table says the same, but PostgreSQL writes the error to its log.
func Tables(d sqlplane.Dialect) string {
	switch d {
	case sqlplane.SQLite:
		return "select count(*) from sqlite_master where type = 'table' and name = ?"
	case sqlplane.MySQL:
		return "select count(*) from information_schema.tables where table_schema = database() and table_name = ?"
	case sqlplane.PostgreSQL:
	}
	return "select count(to_regclass($1))" // looks in all schemas of search_path
}
