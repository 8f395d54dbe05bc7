package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
)

// operation is a row of once_operation, for people and scripts. What was asked and
// answered is not shown: it may be anything.
type operation struct {
	Scope       string     `json:"scope"`
	Key         string     `json:"key"`
	State       string     `json:"state"` // running, done, unknown, or expired
	Since       time.Time  `json:"since"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	LeaseUntil  *time.Time `json:"lease_until,omitempty"`
	Fence       int64      `json:"fence"`
	Fingerprint string     `json:"fingerprint,omitempty"` // version and hash
	Result      string     `json:"result,omitempty"`      // value, failure or omitted
	Status      int        `json:"status,omitempty"`
	ResultBytes int        `json:"result_bytes"`
	Captured    bool       `json:"request_captured"`
	Point       string     `json:"recovery_point,omitempty"`
	Calling     bool       `json:"external_call_begun,omitempty"`

	now time.Time // of the database
}

var clock = map[migration.Dialect]string{
	migration.PostgreSQL: "now()",
	migration.SQLite:     "cast(unixepoch('subsec') * 1000 as integer)",
	migration.MySQL:      "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000",
}

// operations returns what the database has under key, or under its hash, in any
// scope.
func (db *database) operations(ctx context.Context, key string) (found []operation, err error) {
	query := `
		select scope, key, state, since, expires_at, lease_until, fence, fingerprint, kind, status,
			coalesce(length(head), 0) + coalesce(length(body), 0), request is not null, coalesce(point, ''), calling, ` + clock[db.dialect] + `
		from once_operation where key in ($1, $2) order by scope, key`
	if db.dialect == migration.MySQL {
		query = strings.NewReplacer("$1", "?", "$2", "?", " key", " `key`").Replace(query)
	}
	rows, err := db.QueryContext(ctx, query, key, once.HashedKey(key))
	if err != nil {
		return nil, db.failed("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		var op operation
		var state store.State
		var kind store.ResultKind
		var since, expires, lease, now nullTime
		var asked []byte
		err := rows.Scan(&op.Scope, &op.Key, &state, &since, &expires, &lease, &op.Fence, &asked, &kind, &op.Status,
			&op.ResultBytes, &op.Captured, &op.Point, &op.Calling, &now)
		if err != nil {
			return nil, err
		}
		op.State, op.Since, op.ExpiresAt, op.LeaseUntil, op.now = state.String(), *since.at, expires.at, lease.at, *now.at
		if state == store.Done {
			op.Result = [...]string{"value", "failure", "omitted"}[min(kind, store.Omitted)]
			if op.ExpiresAt != nil && !op.ExpiresAt.After(op.now) {
				op.State = "expired"
			}
		}
		if len(asked) > 0 {
			op.Fingerprint = fmt.Sprintf("v%d %s", asked[0], hex.EncodeToString(asked[1:]))
		}
		found = append(found, op)
	}
	if err := rows.Err(); err != nil {
		return nil, db.failed("read", err)
	}
	return found, nil
}

// meaning of a state, for somebody who was woken up by it.
var meaning = map[string]string{
	"running": "somebody works on it; its lease says until when it is theirs",
	"done":    "it took effect, once; a retry gets the stored answer",
	"unknown": "an external call may have taken effect and its caller died: a person or a reconciler must decide, nothing will repeat it",
	"expired": "it took effect, but its retention is over: a retry would execute again",
}

func (op operation) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("key", "%s", op.Key)
	line("scope", "%s", op.Scope)
	line("state", "%s: %s", op.State, meaning[op.State])
	line("since", "%s", op.at(&op.Since))
	if op.ExpiresAt != nil {
		line("expires", "%s", op.at(op.ExpiresAt))
	}
	if op.LeaseUntil != nil {
		line("lease until", "%s", op.at(op.LeaseUntil))
	}
	switch op.Result {
	case "":
	case "omitted":
		line("result", "%s, not kept because it was too large: a retry is told so and does not execute", op.kind())
	default:
		line("result", "%s, %d bytes", op.kind(), op.ResultBytes)
	}
	line("fence", "%d", op.Fence)
	if op.Point != "" {
		line("reached", "recovery point %s", op.Point)
	}
	if op.Calling {
		line("calling", "an external call was begun after it")
	}
	line("fingerprint", "%s", either(op.Fingerprint != "", op.Fingerprint, "none: a retry may ask for anything"))
	line("request", "%s", either(op.Captured, "captured, encrypted", "not captured"))
	return t.Flush()
}

// at shows a moment, and how far it is from the database's now.
func (op operation) at(t *time.Time) string {
	d := op.now.Sub(*t)
	if d < 0 {
		return fmt.Sprintf("%s (in %s)", t.Format(time.RFC3339), span(-d))
	}
	return fmt.Sprintf("%s (%s ago)", t.Format(time.RFC3339), span(d))
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

// kind of a result: an answer over HTTP, or what a function returned.
func (op operation) kind() string {
	if op.Status != 0 {
		return fmt.Sprintf("HTTP %d", op.Status)
	}
	return op.Result
}

func either(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}
