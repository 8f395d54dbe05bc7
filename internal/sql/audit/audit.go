// Package audit records the actions of operators in once_audit, the table of operate.Migrations.
package audit

import (
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Entry is an action of an operator.
type Entry struct {
	Who     string
	Action  string // at most 16 bytes, such as "forget"
	Scope   string // at most 512 bytes
	KeyHash string // the first of [keyname.Hashes]; "": the action concerns more than one key
	Reason  string
	Detail  string // describes the change
}

// Insert returns the statement that writes e. Run it in the transaction that makes the change.
func Insert(d sqlplane.Dialect, e Entry) store.Statement {
	const insert = "insert into once_audit (at, who, action, scope, key_hash, reason, detail) values (NOW, ?, ?, ?, ?, ?, ?)"
	return store.Statement{SQL: dialect.Text(d, insert), Args: []any{e.Who, e.Action, e.Scope, e.KeyHash, e.Reason, e.Detail}}
}
