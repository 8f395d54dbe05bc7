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

// ForgetRequest names the operation to forget. Scope and Key are required.
type ForgetRequest struct {
	Scope, Key string

	// Preview does everything and then rolls it back.
	Preview bool
}

// Reasons why Forget has changed nothing, except ErrCache.
var (
	ErrNothing = errors.New("operate: nothing is stored under this key in this scope. Try: Keys.Find, which looks in every scope")
	ErrRunning = errors.New("operate: the operation is running or waits to go on, and its owner needs the stored data. Try: again when it has ended")
	ErrCache   = errors.New("operate: the operation is forgotten in the database, and a cache was not reached, which may still return its answer. Try: Forget again")
	ErrUnknown = errors.New("operate: the outcome of the operation is unknown, and the stored data is needed to find it out. Try: lease.Resolve, then again")
)

// Forget erases the stored data of a finished operation: the answer, the captured request, its trace, the data of recovery points, and the request
// and correlation ids of its attempts so far. Its state, scope, key and fingerprint stay until it expires, so that a retry gets [once.CodeNoResult]
// (409 over HTTP) and does not execute. Forget returns the change in words; the audit has the same text in the same commit.
//
// A key that is itself personal data stays, because it keeps a retry from executing: see Config.HashKeys. Copies inside the database are not erased
// either: dead rows until they are vacuumed, write-ahead logs, replicas, backups.
//
// After an error nothing has changed, unless it is of [store.KindLost], the answer to COMMIT, or is [ErrCache]. To forget again does no harm.
func (a *Keys) Forget(ctx context.Context, by By, o ForgetRequest) (detail string, err error) {
	if err := errors.Join(by.check(), o.complete()); err != nil {
		return "", err
	}
	if err := owner.Check(ctx, o.Scope); err != nil {
		return "", fmt.Errorf("operate: %w", err)
	}
	err = a.db.Within(ctx, store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) (err error) {
		if detail, err = a.forget(ctx, r, by, o); err == nil && o.Preview {
			err = errPreview
		}
		return err
	})
	if errors.Is(err, errPreview) {
		return detail, nil
	}
	if err != nil && store.KindOf(err) != store.KindLost {
		return detail, err
	}
	for _, c := range a.caches { // even if the caller has gone
		if cacheErr := c.InvalidateCache(context.WithoutCancel(ctx), o.Scope, o.Key); cacheErr != nil {
			err = errors.Join(err, ErrCache, cacheErr)
		}
	}
	return detail, err
}

var errPreview = errors.New("rolled back: a preview")

// complete returns an error that names a missing field.
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

func (a *Keys) forget(ctx context.Context, r sqlplane.Runner, by By, o ForgetRequest) (string, error) {
	exec := func(query string, args ...any) (int64, error) { return r.Exec(ctx, a.statement(query, args...)) }
	where, args := named(o.Scope, o.Key) // a write comes first: SQLite does not let a reader upgrade to a writer after another write
	attempts, err := exec("update once_attempt set request_id = '', correlation_id = '' where "+where+" and (request_id <> '' or correlation_id <> '')", args...)
	if err != nil {
		return "", err
	}
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
		details = append(details, fmt.Sprintf("ids of %d attempts erased", attempts))
	}
	detail := strings.Join(details, "; ")
	entry := audit.Entry{Who: by.Who, Action: "forget", Scope: o.Scope, KeyHash: keyname.Hashes(o.Key)[0], Reason: by.Reason, Detail: detail}
	_, err = r.Exec(ctx, audit.Insert(a.db.Dialect(), entry))
	return detail, err
}

// forgottenHead is the stored header of op after its answer is forgotten: whether its writes were rolled back is not part of the answer.
func (op Operation) forgottenHead() []byte {
	switch op.Effect {
	case once.EffectApplied.String():
		return nil
	case once.EffectNotApplied.String():
		return head.Encode(&store.Result{RolledBack: true})
	}
	return head.Forgotten()
}

// permits returns an error if op cannot be forgotten.
func permits(op Operation) error {
	switch op.State {
	case "running", "waiting":
		return ErrRunning
	case "unknown":
		return ErrUnknown
	}
	return nil
}

// erased describes the erased data of op.
func erased(op Operation) string {
	what := fmt.Sprintf("%s: %d bytes of its result", op.State, op.ResultBytes)
	if op.Captured {
		what += " and its request"
	}
	return what + " erased"
}
