package pgxstore

import (
	"fmt"
	"strings"

	"github.com/oncelib/once/store"
)

// declarable refuses what could end the transaction in the middle of its pipeline, where
// nobody looks before the end: COMMIT, and CALL and DO, whose code may commit where there
// was no BEGIN. A text of several statements the server refuses by itself, unless pgx is
// to use the simple protocol.
func declarable(writes []store.Statement, simple bool) error {
	for i, w := range writes {
		word := firstWord(w.SQL)
		switch strings.ToLower(word) {
		case "insert", "update", "delete", "merge", "with", "select", "values":
			if !simple || strings.IndexByte(strings.TrimRight(w.SQL, "; \t\r\n"), ';') < 0 {
				continue
			}
			word = "several statements"
		}
		return &store.Error{Kind: store.Misused, Err: fmt.Errorf("pgxstore: write %d of a batch is %q. Try: insert, update, delete, merge or select, one in a text; or once.Do", i+1, word)}
	}
	return nil
}

// firstWord is what a statement begins with, after blanks, comments and parentheses; "" if
// that is no word. Comments inside of comments are not looked into.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f(")
		switch {
		case strings.HasPrefix(sql, "--"):
			end := strings.IndexAny(sql, "\r\n")
			if end < 0 {
				return ""
			}
			sql = sql[end:]
		case strings.HasPrefix(sql, "/*"):
			end := strings.Index(sql[2:], "*/")
			if end < 0 || strings.Contains(sql[2:2+end], "/*") {
				return ""
			}
			sql = sql[2+end+2:]
		default:
			end := strings.IndexFunc(sql, func(r rune) bool { return (r|0x20) < 'a' || (r|0x20) > 'z' })
			if end < 0 {
				end = len(sql)
			}
			return sql[:end]
		}
	}
}
