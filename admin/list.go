package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/dialect"
	"github.com/oncelib/once/store"
)

// DefaultLimit is how much is listed at once, unless more is asked for.
const DefaultLimit = 50

// Filter says which operations to list. The zero value is all of them.
type Filter struct {
	State       string    // running, waiting, done, unknown or expired
	Scope       string    // this one
	ScopePrefix string    // those that begin so
	Name        string    // of this kind: Operation.Name
	Since       time.Time // begun at this moment or later; for atomic work that is when it was done
	Before      time.Time // begun before it
	After       string    // what List has returned as next
	Limit       int       // default 50
}

// List returns operations by scope and key, and how to ask for those that follow: ""
// if there are none. Each call sees the table as it is then; what is there all the
// while is listed once. Filters on anything but scope read through the whole table.
func (a *Admin) List(ctx context.Context, f Filter) (list []Operation, next string, err error) {
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	where, args, err := a.where(f)
	if err != nil {
		return nil, "", err
	}
	query := a.statement(operationColumns+where+" order by scope, KEY limit ?", append(args, f.Limit+1)...)
	list, err = collect(ctx, a.db.Pool(), query, scanOperation)
	if err != nil || len(list) <= f.Limit {
		return list, "", err
	}
	list = list[:f.Limit]
	last := list[f.Limit-1]
	return list, cursor{last.Scope, last.Key}.String(), nil
}

var states = map[string]string{
	"":           "1 = 1",
	"running":    "state = 1",
	"waiting":    "state = 4",
	"done":       "state = 2 and (expires_at is null or expires_at > NOW)",
	"unknown":    "state = 3",
	StateExpired: "state = 2 and expires_at <= NOW",
}

func (a *Admin) where(f Filter) (text string, args []any, err error) {
	text, ok := states[f.State]
	if !ok {
		return "", nil, fmt.Errorf("admin: there is no state %q. Try: running, waiting, done, unknown or expired", f.State)
	}
	and := func(cond string, values ...any) {
		text += " and " + cond
		args = append(args, values...)
	}
	if f.Scope != "" {
		and("scope = ?", f.Scope)
	}
	if f.ScopePrefix != "" { // a range: an index serves it, and nothing needs to be escaped
		and("scope >= ?", f.ScopePrefix)
		if end := store.AfterPrefix(f.ScopePrefix); end != "" {
			and("scope < ?", end)
		}
	}
	if f.Name != "" {
		and("name = ?", f.Name)
	}
	if !f.Since.IsZero() {
		and("since >= ?", dialect.StoredTime(a.db.Dialect(), f.Since))
	}
	if !f.Before.IsZero() {
		and("since < ?", dialect.StoredTime(a.db.Dialect(), f.Before))
	}
	if f.After != "" {
		c, err := parseCursor(f.After)
		if err != nil {
			return "", nil, err
		}
		and("(scope, KEY) > (?, ?)", c.scope, c.key)
	}
	return text, args, nil
}
