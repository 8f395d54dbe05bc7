package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// StateExpired is the state of an operation whose retention is over and whose row still exists. The engine handles a request for an expired operation
// as if the operation did not exist. The other states of an operation have the names that the type [store.State] defines.
const StateExpired = "expired"

// Operation is a stored operation, in the form that people and scripts read. An Operation does not have the request and the answer, because request
// and answer may contain confidential data.
type Operation struct {
	Scope         string     `json:"scope"`
	Key           string     `json:"key"`            // the key as it is stored; with once.Config.HashKeys a hash
	Name          string     `json:"name,omitempty"` // the kind of work: once.Operation.Name
	State         string     `json:"state"`          // one of running, waiting, done, unknown and expired
	Since         time.Time  `json:"since"`
	ExpiresAt     *time.Time `json:"expires_at,omitempty"`
	LeaseUntil    *time.Time `json:"lease_until,omitempty"`
	Fence         int64      `json:"fence"`
	Fingerprint   string     `json:"fingerprint,omitempty"` // the version and the hash of the fingerprint
	Result        string     `json:"result,omitempty"`      // one of value, failure and omitted; "" if the operation is not done
	Effect        string     `json:"effect,omitempty"`      // for a finished operation: "applied", or "not applied" if its writes were rolled back, or "" if not recorded
	Status        int        `json:"status,omitempty"`
	ResultBytes   int        `json:"result_bytes"`
	Captured      bool       `json:"request_captured"`
	RecoveryPoint string     `json:"recovery_point,omitempty"`
	CallStarted   bool       `json:"external_call_begun,omitempty"`
	Trace         string     `json:"trace,omitempty"` // the W3C traceparent of the call that has written the record

	Now time.Time `json:"-"` // the time of the database's clock when this value was read
}

// operationColumns is a query of operations that ends before its conditions.
var operationColumns = operationsIn("")

// operationsIn returns this query with an index hint.
func operationsIn(index string) string { return selectOperation + index + " where " }

const selectOperation = `select scope, KEY, state, since, expires_at, lease_until, fence, fingerprint, kind, status,
 head, coalesce(length(body), 0), request is not null, coalesce(point, ''), calling, coalesce(trace, ''), coalesce(name, ''), NOW from once_operation`

// Find searches all scopes, and returns the operations whose stored key is the parameter key or the hash of this key.
func (a *Keys) Find(ctx context.Context, key string) ([]Operation, error) {
	return collect(ctx, a.db.Pool(), a.statement(operationColumns+"KEY in (?, ?) order by scope, KEY", key, keyname.Hashed(key)), scanOperation)
}

// effectOf returns the [Operation].Effect of a stored result. For a refusal without a mark the effect is not known: its handler may have kept its
// writes, or an earlier version has stored the record.
func effectOf(r store.Result) string {
	switch {
	case r.RolledBack:
		return once.EffectNotApplied.String()
	case r.Kind == store.ResultFailure, r.Status >= 400, head.IsForgotten(&r):
		return ""
	}
	return once.EffectApplied.String()
}

func scanOperation(row sqlplane.Row) (op Operation, err error) {
	var state store.State
	var kind store.ResultKind
	var since, expires, lease, now time.Time
	var asked, stored []byte
	err = row.Scan(&op.Scope, &op.Key, &state, (*dialect.Time)(&since), (*dialect.Time)(&expires), (*dialect.Time)(&lease), &op.Fence, &asked, &kind, &op.Status,
		&stored, &op.ResultBytes, &op.Captured, &op.RecoveryPoint, &op.CallStarted, &op.Trace, &op.Name, (*dialect.Time)(&now))
	if err != nil {
		return op, err
	}
	op.State, op.Since, op.ExpiresAt, op.LeaseUntil, op.Now = state.String(), shown(since), shownOrNil(expires), shownOrNil(lease), shown(now)
	if state == store.StateDone {
		r := store.Result{Kind: kind, Status: op.Status}
		_ = head.Decode(stored, &r) // an error is ignored: damaged headers say nothing about the writes
		op.Result, op.Effect = resultOf(kind), effectOf(r)
		op.ResultBytes += head.Size(r.Header)
		if op.ExpiresAt != nil && !op.ExpiresAt.After(op.Now) {
			op.State = StateExpired
		}
	}
	op.Fingerprint = fingerprintOf(asked)
	return op, nil
}

func resultOf(kind store.ResultKind) string {
	return [...]string{"value", "failure", "omitted"}[min(kind, store.ResultOmitted)]
}

// fingerprintOf returns the version and the hash of a stored fingerprint as a text.
func fingerprintOf(stored []byte) string {
	if len(stored) == 0 {
		return ""
	}
	return fmt.Sprintf("v%d %x", stored[0], stored[1:])
}

// ID returns the scope and the key of the operation.
func (op Operation) ID() store.ID { return store.ID{Scope: op.Scope, Key: op.Key} }
