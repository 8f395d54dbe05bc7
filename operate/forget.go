package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// ForgetRequest names the operation whose data [Keys.Forget] erases. Scope and Key are required.
type ForgetRequest struct {
	Scope, Key string

	// If Preview is true, Forget makes all changes and then rolls back these changes, so that the caller sees which data Forget would erase.
	Preview bool
}

// The method [Keys.Forget] returns the errors ErrNothing, ErrRunning, ErrCache and ErrUnknown. After ErrCache the data of the operation is erased
// from the database; after ErrNothing, ErrRunning and ErrUnknown nothing has changed.
var (
	ErrNothing = errors.New("operate: the scope has no operation with this key. Try: Keys.Find, which searches all scopes")
	ErrRunning = errors.New("operate: the operation has not ended, and its owner still needs the stored data. Try: forget the operation after its end")
	ErrCache   = errors.New("operate: the data of the operation is deleted from the database, but a cache was not reached and may still return the answer. Try: Forget again")
	ErrUnknown = errors.New("operate: the outcome of the operation is unknown, and an operator needs the stored data to find out the outcome. Try: lease.Resolve, and then Forget again")
)

// Forget erases the stored data of a finished operation: its answer, its captured request, its trace, the data that its finished phases have saved
// (recovery points), and the request and correlation ids of its attempts so far. The state, scope, key and fingerprint (hash of the request) of the
// operation are kept until its retention is over. So a retry of a forgotten operation is not executed: the retry gets the error [once.CodeNoResult]
// (409 over HTTP). Forget returns a text that names the erased data, and writes the same text to the audit table in the same commit.
//
// Forget does not erase the key, even if the key is personal data, because only the key prevents the execution of a retry; to store hashes instead of
// keys, set [once.Config].HashKeys. Forget does not erase copies of the data in dead rows (until the next vacuum), write-ahead logs, replicas and
// backups.
//
// If Forget returns an error, nothing has changed, except after two errors: [store.KindLost] (the answer of the database to COMMIT was lost) and
// [ErrCache]. Forget may be called again after any error.
func (a *Keys) Forget(ctx context.Context, by By, o ForgetRequest) (detail string, err error) {
	if err := errors.Join(by.check(), o.complete()); err != nil {
		return "", err
	}
	// An operation of a saga or a gateway has an owner, and only the command of the owner may erase its data.
	if err := owner.Check(ctx, o.Scope); err != nil {
		return "", fmt.Errorf("operate: %w", err)
	}
	// The store of a gateway has no attempt log. The question comes before the transaction, because on PostgreSQL an error ends a transaction.
	hasLog, err := a.has(ctx, "once_attempt")
	if err != nil {
		return "", err
	}
	err = a.db.Within(ctx, store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) (err error) {
		// An error rolls all changes back, so a preview runs the same statements as the real call.
		if detail, err = a.forget(ctx, r, by, o, hasLog); err == nil && o.Preview {
			err = errPreview
		}
		return err
	})
	if errors.Is(err, errPreview) {
		return detail, nil
	}
	// After a lost answer to COMMIT the data may be erased, so the caches must forget it too.
	if err != nil && store.KindOf(err) != store.KindLost {
		return detail, err
	}
	for _, c := range a.caches { // also if the context has ended: a cache must not replay erased data
		if cacheErr := c.InvalidateCache(context.WithoutCancel(ctx), o.Scope, o.Key); cacheErr != nil {
			err = errors.Join(err, ErrCache, cacheErr)
		}
	}
	return detail, err
}

var errPreview = errors.New("rolled back: a preview")

// complete returns an error that names a missing field, or nil.
func (o ForgetRequest) complete() error {
	for _, field := range []struct{ name, value, try string }{
		{"Scope", o.Scope, "the scope of the operation: Keys.Find lists those of a key"},
		{"Key", o.Key, "the key of the operation"},
	} {
		if field.value == "" {
			return fmt.Errorf("operate: ForgetRequest.%s is empty. Try: %s", field.name, field.try)
		}
	}
	return nil
}

func (a *Keys) forget(ctx context.Context, r sqlplane.Runner, by By, o ForgetRequest, hasLog bool) (string, error) {
	exec := func(query string, args ...any) (int64, error) { return r.Exec(ctx, a.statement(query, args...)) }
	var attempts int64
	if hasLog {
		var err error
		where, args := named(o.Scope, o.Key)
		if attempts, err = exec("update once_attempt set request_id = '', correlation_id = '' where "+where+" and (request_id <> '' or correlation_id <> '')", args...); err != nil {
			return "", err
		}
	}
	// The lock keeps the owner of the operation from changing it before the erasure.
	locked := a.statement(operationColumns+"scope = ? and KEY in (?, ?) order by KEY FOR UPDATE", o.Scope, o.Key, keyname.Hashed(o.Key))
	found, err := collect(ctx, r, locked, scanOperation)
	if err != nil {
		return "", err
	}
	if len(found) == 0 && attempts == 0 {
		return "", ErrNothing
	}
	var details []string
	for _, op := range found {
		if err := permits(op); err != nil {
			return "", err
		}
		const query = "update once_operation set kind = 2, head = ?, body = null, request = null, trace = null, point = null, data = null where scope = ? and KEY = ?"
		if _, err := exec(query, op.forgottenHead(), op.Scope, op.Key); err != nil {
			return "", err
		}
		details = append(details, erased(op))
	}
	if attempts > 0 {
		details = append(details, fmt.Sprintf("request IDs of %d attempts erased", attempts))
	}
	detail := strings.Join(details, "; ")
	entry := audit.Entry{Who: by.Who, Action: "forget", Scope: o.Scope, KeyHash: keyname.Hashes(o.Key)[0], Reason: by.Reason, Detail: detail}
	_, err = r.Exec(ctx, audit.Insert(a.db.Dialect(), entry))
	return detail, err
}

// forgottenHead returns the stored header of op after its answer is erased. The header keeps whether the writes were rolled back, because this is not
// part of the answer.
func (op Operation) forgottenHead() []byte {
	switch op.Effect {
	case once.EffectApplied.String():
		return nil
	case once.EffectNotApplied.String():
		return head.Encode(&store.Result{RolledBack: true})
	}
	return head.Forgotten()
}

// permits returns an error if the data of op cannot be erased.
func permits(op Operation) error {
	switch op.State {
	case "running", "waiting":
		return ErrRunning
	case "unknown":
		return ErrUnknown
	}
	return nil
}

// erased returns a text that describes the erased data of op.
func erased(op Operation) string {
	what := fmt.Sprintf("%s: %d bytes of its result", op.State, op.ResultBytes)
	if op.Captured {
		what += " and its request"
	}
	return what + " erased"
}
