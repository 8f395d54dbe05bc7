package operate

import (
	"context"
	"slices"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/lease"
)

// KeyQuery says which key [Keys.Show] shows.
type KeyQuery struct {
	Key      string // a key in quotation marks, as in the log of a proxy, is also searched without the marks
	Scope    string // default: "", all scopes
	Only     bool   // true: search only in Scope, by an index; KeyView.ScopesWithKey then has no other scope
	Attempts int    // how many of the last attempts to return
}

// KeyView has all stored facts about an idempotency key, in the form that people and scripts read.
type KeyView struct {
	Found         bool       `json:"found"`
	Ambiguous     bool       `json:"ambiguous"` // several scopes have the key, and KeyQuery.Scope is ""
	Key           string     `json:"key"`
	Scope         string     `json:"scope"`
	Operation     *Operation `json:"operation,omitempty"`
	ScopesWithKey []string   `json:"scopes_with_key"`

	lease.Progress
	Timeline

	Operations []Operation `json:"-"` // the operations with the key, of all scopes
}

// Show returns all stored facts about a key: its operation, the operation's progress, its last attempts, and the acts of operators on it. If the
// database has no attempt log, the list of attempts is empty. If the database has no audit table, the list of the acts of operators is empty.
func (a *Keys) Show(ctx context.Context, q KeyQuery) (v KeyView, err error) {
	v = KeyView{Key: q.Key, Scope: q.Scope, ScopesWithKey: []string{}, Timeline: Timeline{Attempts: []Attempt{}, Audit: []Entry{}}}
	if q.Only {
		v.Operations, err = collect(ctx, a.db.Pool(), a.statement(operationColumns+"scope = ? and KEY = ?", q.Scope, q.Key), scanOperation)
	} else {
		err = a.look(ctx, q, &v)
	}
	if err != nil {
		return v, err
	}
	for _, op := range v.Operations {
		v.ScopesWithKey = append(v.ScopesWithKey, op.Scope)
		if op.Scope == q.Scope || q.Scope == "" && len(v.Operations) == 1 {
			v.Found, v.Operation, v.Scope = true, &op, op.Scope
		}
	}
	// Attempts of several operations must not be mixed in one timeline.
	if v.Ambiguous = q.Scope == "" && len(v.Operations) > 1; v.Ambiguous {
		return v, nil
	}
	if v.Timeline, err = a.timelineIfAny(ctx, v.Scope, v.Key, q.Attempts); err != nil {
		return v, err
	}
	if bare, quotes := keyname.Unquoted(q.Key); quotes && !v.Found && v.Total == 0 { // without a record the key could be the text with or without its quotation marks
		v.Key = bare
		if v.Timeline, err = a.timelineIfAny(ctx, v.Scope, bare, q.Attempts); err != nil {
			return v, err
		}
	}
	if v.Found {
		v.Progress, err = a.Progress(ctx, v.Operation.ID())
	}
	return v, err
}

// look finds the operations with the given key. If the scope has none, look searches for the text between the quotation marks of the key: a header
// has these marks, and a record does not.
func (a *Keys) look(ctx context.Context, q KeyQuery, v *KeyView) (err error) {
	has := func(list []Operation) bool {
		return slices.ContainsFunc(list, func(op Operation) bool { return q.Scope == "" || op.Scope == q.Scope })
	}
	v.Operations, err = a.Find(ctx, q.Key)
	bare, quotes := keyname.Unquoted(q.Key)
	if err != nil || !quotes || has(v.Operations) {
		return err
	}
	other, err := a.Find(ctx, bare)
	if len(v.Operations) == 0 && len(other) > 0 || has(other) {
		v.Key, v.Operations = bare, other
	}
	return err
}

// timelineIfAny returns the timeline of a key. A list is empty if the database does not have its table: the store of a gateway has an audit and no
// attempt log.
func (a *Keys) timelineIfAny(ctx context.Context, scope, key string, attempts int) (Timeline, error) {
	tl, err := a.attempts(ctx, scope, key, attempts)
	if err == nil || sqlguard.IsMissing(err) {
		tl.Audit, err = a.acts(ctx, scope, key)
	}
	if sqlguard.IsMissing(err) {
		err = nil
	}
	if tl.Attempts == nil {
		tl.Attempts = []Attempt{} // JSON must have an empty list and not null
	}
	if tl.Audit == nil {
		tl.Audit = []Entry{}
	}
	return tl, err
}
