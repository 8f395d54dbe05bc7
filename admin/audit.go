package admin

import (
	"context"
	"errors"
	"time"

	"github.com/oncelib/once/internal/audit"
	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// Entry is a row of the audit: what an operator has done. What has changed something was
// committed together with that.
type Entry struct {
	ID      int64     `json:"id"` // grows, with gaps: a preview takes one too
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Action  string    `json:"action"`   // forget, resolve, list or show; of dead letters redrive, cancel or discard
	Scope   string    `json:"scope"`    // "" is every scope
	KeyHash string    `json:"key_hash"` // once.KeyHash of the key, "" of a list
	Reason  string    `json:"reason"`
	Detail  string    `json:"detail"` // what was changed, or looked for
}

// Access says who has read stored operations: their keys and scopes may tell about customers.
type Access struct {
	Who        string // required
	Scope, Key string // "": all of them
	Detail     string // what was looked for
}

// RecordAccess writes access to the audit. Reading itself needs no right to write, so the caller
// decides what an error means.
func (a *Admin) RecordAccess(ctx context.Context, access Access) error {
	if access.Who == "" {
		return errors.New("admin: Access.Who is empty. Try: the name of the person or service that reads")
	}
	action, hash := "list", ""
	if access.Key != "" {
		action, hash = "show", audit.KeyHashes(access.Key)[0]
	}
	_, err := a.db.Pool().Exec(ctx, audit.Insert(a.db.Dialect(), audit.Entry{Who: access.Who, Action: action, Scope: access.Scope, KeyHash: hash, Detail: access.Detail}))
	return err
}

const auditColumns = "select id, at, who, action, scope, key_hash, reason, detail from once_audit where "

// Audit returns entries, the newest first, at most limit (0: 50). Scope "" is every
// scope; before is the ID of the last entry that was seen, 0 to begin with.
func (a *Admin) Audit(ctx context.Context, scope string, before int64, limit int) ([]Entry, error) {
	where, args := "1 = 1", []any{}
	if scope != "" {
		where, args = where+" and scope = ?", append(args, scope)
	}
	if before > 0 {
		where, args = where+" and id < ?", append(args, before)
	}
	if limit <= 0 {
		limit = DefaultLimit
	}
	return collect(ctx, a.db.Pool(), a.statement(auditColumns+where+" order by id desc limit ?", append(args, limit)...), scanEntry)
}

func scanEntry(row store.Row) (e Entry, err error) {
	err = row.Scan(&e.ID, (*dialect.Time)(&e.At), &e.Who, &e.Action, &e.Scope, &e.KeyHash, &e.Reason, &e.Detail)
	e.At = shown(e.At)
	return e, err
}
