// Package audit writes what operators do into once_audit, the table of admin.Migrations.
package audit

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// Entry is what an operator has done.
type Entry struct {
	Who     string
	Action  string // at most 16 bytes, such as "forget"
	Scope   string // at most 512 bytes
	KeyHash string // the first of KeyHashes; "": not of one key
	Reason  string
	Detail  string // what was changed, in words
}

// Insert returns the statement that writes e, to be run in the transaction that makes the change.
func Insert(d store.Dialect, e Entry) store.Statement {
	const insert = "insert into once_audit (at, who, action, scope, key_hash, reason, detail) values (NOW, ?, ?, ?, ?, ?, ?)"
	return store.Statement{SQL: dialect.Text(d, insert), Args: []any{e.Who, e.Action, e.Scope, e.KeyHash, e.Reason, e.Detail}}
}

// KeyHashes are what the logs may call key. A key as it is stored under Config.HashKeys
// has the hash of the real one in it.
func KeyHashes(key string) []string {
	if text, ok := strings.CutPrefix(key, "sha256-"); ok {
		if h, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(h) == 32 {
			return []string{hex.EncodeToString(h[:8]), once.KeyHash(key)}
		}
	}
	return []string{once.KeyHash(key)}
}
