package operate

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Entry is a row of the audit table: one act of an operator. If the operator has changed something, the change and the row in the audit table were
// committed together.
type Entry struct {
	ID      int64     `json:"id"` // a later entry has a greater ID; there are gaps, because a preview uses an ID too
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Action  string    `json:"action"`   // forget, resolve, list or show; for dead letters: redrive, cancel or discard
	Scope   string    `json:"scope"`    // "" means every scope
	KeyHash string    `json:"key_hash"` // once.KeyHash of the key; "" for a list
	Reason  string    `json:"reason"`
	Detail  string    `json:"detail"` // the object that was changed or read
}

// Access describes which stored operations an operator has read, for the audit table. Reads are written to the audit table because keys and scopes
// may contain data about customers.
type Access struct {
	Scope, Key string // "" means all scopes or keys
	Detail     string // the objects that were read
	Shown      bool   // true if one object was shown, also one without a Key; false if a list was read
}

// Looked writes to the audit table that an operator (the parameter by) has read stored operations; by.Reason may be empty. Looked returns an error if
// the database user has no right to write. If Looked returns an error, the caller decides whether the operator may see the operations.
func (a *Keys) Looked(ctx context.Context, by By, access Access) error {
	if by.Who == "" {
		return errors.New("operate: By.Who is empty. Try: the name of the person or service that reads the audit")
	}
	action, hash := "list", ""
	if access.Key != "" {
		hash = keyname.Hashes(access.Key)[0]
	}
	if access.Shown || access.Key != "" {
		action = "show"
	}
	// The audit outlives the operation, so it stores only a hash of the key.
	if err := a.need(ctx, "once_audit"); err != nil {
		return err
	}
	_, err := a.db.Pool().Exec(ctx, audit.Insert(a.db.Dialect(), audit.Entry{Who: by.Who, Reason: by.Reason, Action: action, Scope: access.Scope, KeyHash: hash, Detail: access.Detail}))
	return err
}

const auditColumns = "select id, at, who, action, scope, key_hash, reason, detail from once_audit where "

// AuditFilter chooses entries of the audit. The zero value of AuditFilter chooses all entries of the audit.
type AuditFilter struct {
	Window

	Scope   string // entries of this scope; "" means all scopes
	Changes bool   // only entries of changes, and not of reads
}

// Audit returns all acts of operators in this database that match f, the newest first.
func (a *Keys) Audit(ctx context.Context, f AuditFilter) (p Page[Entry], err error) {
	where, args := "1 = 1", []any{}
	if f.Scope != "" {
		where, args = where+" and scope = ?", append(args, f.Scope)
	}
	if f.Changes {
		where += " and action not in ('list', 'show')" // the actions that Looked writes
	}
	if f.After != "" {
		id, err := strconv.ParseInt(f.After, 10, 64)
		if err != nil || id < 1 {
			return p, errCursor
		}
		where, args = where+" and id < ?", append(args, id)
	}
	// One entry more than the page has shows whether a next page exists.
	query := statement(a.db, auditColumns+where+" order by id desc limit ?", append(args, f.limit()+1)...)
	list, err := collect(ctx, a.db.Pool(), query, scanEntry)
	if err != nil {
		return p, err
	}
	return pageOf(list, f.Window, func(e Entry) string { return strconv.FormatInt(e.ID, 10) }), nil
}

func scanEntry(row sqlplane.Row) (e Entry, err error) {
	err = row.Scan(&e.ID, (*dialect.Time)(&e.At), &e.Who, &e.Action, &e.Scope, &e.KeyHash, &e.Reason, &e.Detail)
	e.At = shown(e.At)
	return e, err
}

// HasAudit reports whether the database has the audit table. If the audit table does not exist, all methods that change something fail.
func (a *Keys) HasAudit(ctx context.Context) (bool, error) { return a.has(ctx, "once_audit") }

// has reports whether the database has a table.
func (a *Keys) has(ctx context.Context, table string) (bool, error) {
	n := 0
	err := a.db.Pool().Query(ctx, store.Statement{SQL: dialect.Tables(a.db.Dialect()), Args: []any{table}}, func(row sqlplane.Row) error { return row.Scan(&n) })
	return n > 0, err
}

// need returns an error if the database does not have a table.
func (a *Keys) need(ctx context.Context, table string) error {
	ok, err := a.has(ctx, table)
	if err == nil && !ok {
		err = sqlguard.Missing(table)
	}
	return err
}
