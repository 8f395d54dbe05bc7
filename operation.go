package once

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/fingerprint"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/store"
)

// MaxKey is the maximum length of a key, in bytes. The maximum length of a scope is 512
// bytes.
const MaxKey = keyname.MaxKey // 255

// maxName is the length of the longest name, in bytes.
const maxName = 255

// Operation is one intent (work that must be done once). All calls with the same scope and key mean the same intent, and get the same
// answer.
type Operation struct {
	// Scope says to which tenant or principal the key belongs, and to which route or kind of work. Two tenants
	// may use the same key in their own scopes. Scopes that begin with "saga/" are reserved for package saga,
	// and scopes that begin with "gateway/" for package gateway. Required.
	Scope string

	// Key names the intent (the work that must be done once) within the scope: see [NewKey] and [DeriveKey]. Required.
	Key string

	// Name is the kind of work, such as "POST /refunds". A program should use only a few names, because
	// Name is a label of metrics. Scope is not a label, because a scope may contain the name of a tenant.
	// Name is stored: lists and gauges show Name, and a lease.Completer uses Name to find the handler.
	// Transports set Name to the route. At most 255 bytes. Default: no name.
	Name string

	// Fingerprint is a hash of the request. If a call has the key of an earlier call but another fingerprint,
	// the engine refuses the call with [CodeMismatch]. If Fingerprint is zero, fingerprints are not compared.
	Fingerprint Fingerprint

	// Wait is how long a call waits if another call of the same operation is in flight. After the time Wait
	// the call fails with [CodeInFlight]. A call that waits holds no connection. Default 0: the call does not
	// wait.
	Wait time.Duration

	// Retain overrides Config.Retain for this operation. Set [Forever] if the key is derived from an event that
	// can never happen a second time: see [DeriveKey].
	Retain time.Duration

	// Isolation is the isolation level of the transaction. Default: the isolation level in the
	// configuration of the database.
	Isolation store.Isolation

	// Each field of Operation.Timeouts that is set overrides the same field of Config.Timeouts. Operation.Timeouts do not apply to
	// [Join], because the caller has opened the transaction.
	Timeouts store.Timeouts

	// Optimistic sends the claim and the look-up together with the handler's first statement, on stores that
	// can do so (pgxstore). With Optimistic, the execution of an operation needs one round trip less than
	// without Optimistic. Optimistic saves the same round trip as an Attempt.Number of 1. With Optimistic,
	// the handler of an operation that is already done still runs up to its first statement, and is stopped
	// there. So set Optimistic only for handlers that do nothing outside of the transaction before their
	// first statement.
	//
	// Even with Optimistic, the look-up comes first if the call is probably a retry: if Attempt.Number is 2 or
	// more, if this process has seen the operation done, or if the key is a UUID of version 7 that was made
	// more than two seconds ago. The look-up also comes first for a call at the isolation level SERIALIZABLE,
	// for a call with Attempt.FirstSent, and for a batch ([DoBatch]).
	Optimistic bool

	// Request is the request that the operation answers, such as the body of an HTTP request. Request is stored
	// with the operation if Config.Encrypter is set.
	Request []byte

	// Attempt describes this attempt. Transports, such as package oncehttp, set Attempt.
	Attempt Attempt
}

// Attempt describes one call of an [Operation]. The caller of the operation sets the fields of Attempt; all fields
// are optional.
type Attempt struct {
	// Number is 1 for the first attempt of this operation, 2 for the next attempt, and so on. 0 means that the number is not known.
	//
	// If Number is 1, the caller has never sent this operation before. If Number is 1, the store may skip the look-up
	// of the operation, and delay the claim until the handler's first statement: so on pgxstore the operation needs one
	// round trip less than the same transaction without this library. If Number is 1 but the operation was sent before,
	// the caller still gets the stored answer or [CodeInFlight], but on pgxstore the handler runs without an effect: if
	// the operation is in flight, the handler runs up to its first statement, and if the operation is done, the handler
	// runs to its end. All stores except pgxstore detect a wrong Number before the handler runs.
	Number int

	// FirstSent is the time at which the caller sent this operation for the first time, by the caller's clock.
	// The call is refused with [CodeStale] if no record of the operation is found, and if FirstSent is so long
	// ago that the record of the first attempt may have expired. If a call is refused with CodeStale, the
	// first attempt may have executed the operation. If a record of the operation is found, the result in this
	// record is replayed, whatever the value of FirstSent is. FirstSent is compared with the database's clock,
	// with a tolerance of Config.Skew. All attempts of one operation must have the same FirstSent. If
	// FirstSent is set, the store looks up the operation even if Number is 1. The zero value means that the
	// time of the first attempt is not known. If FirstSent is zero, a retry after the retention executes the
	// operation again.
	FirstSent time.Time

	// Trace is the W3C traceparent of the caller. Trace is kept with the operation, so that a replay can be
	// linked to the call that has executed the operation. If a [Tracer] returns a trace, the trace of the
	// Tracer is kept instead.
	Trace string

	// RequestID and CorrelationID name the request in logs and traces.
	RequestID     string
	CorrelationID string

	// Bytes is the size of the memory that the caller keeps while this call waits, such as the size of
	// the body of a request. Bytes counts towards Config.MaxWaitingBytes.
	Bytes int64
}

// waitingSize is the memory of a waiting call without its strings and byte slices.
const waitingSize = 4 << 10

// size returns about how much memory a call takes while it waits.
func (op *Operation) size() int64 {
	return waitingSize + op.Attempt.Bytes + int64(len(op.Scope)+len(op.Key)+len(op.Request))
}

// isZero reports whether op names no operation.
func (op *Operation) isZero() bool { return op.Scope == "" && op.Key == "" }

func (e *Engine[TX]) check(op *Operation) error {
	switch err := keyname.Check(op.Key); {
	case err != nil:
		return err
	case op.Scope == "":
		return errors.New("the scope is empty. Try: tenant plus route, such as \"acme POST /refunds\"")
	case len(op.Scope) > keyname.MaxScope:
		return fmt.Errorf("the scope has %d bytes, and at most %d are allowed", len(op.Scope), keyname.MaxScope)
	case !printable.Is(op.Scope):
		return errors.New("the scope contains control characters or is not UTF-8")
	case len(op.Attempt.Trace) > traceparent.Max, !printable.Is(op.Attempt.Trace):
		return fmt.Errorf("the trace has control characters, is not UTF-8 or has more than %d bytes. Try: a W3C traceparent", traceparent.Max)
	case len(op.Name) > maxName, !printable.Is(op.Name):
		return fmt.Errorf("the name has control characters, is not UTF-8 or has more than %d bytes. Try: the kind of work, such as \"POST /refunds\"", maxName)
	case op.Wait < 0:
		return errors.New("Operation.Wait must not be negative")
	case op.bounds() != nil:
		return op.bounds()
	case op.Retain != 0 && op.Retain < e.cfg.minRetain():
		return fmt.Errorf("Operation.Retain is %v, and must be at least %v, because the record must not expire while it is not known whether its commit has succeeded", op.Retain, e.cfg.minRetain())
	case !op.Attempt.FirstSent.IsZero() && time.Until(op.Attempt.FirstSent) > e.skew(op):
		return fmt.Errorf("%w: %v", wire.ErrFuture, op.Attempt.FirstSent)
	case e.cfg.RequireNamespace != Namespace{} && !e.cfg.RequireNamespace.owns(op.Key):
		return fmt.Errorf("the key is not in namespace %s. Try: %s", e.cfg.RequireNamespace, e.cfg.RequireNamespace.Key("<id>"))
	}
	return nil
}

// bounds returns an error if the transaction's timeouts or isolation are not valid.
func (op *Operation) bounds() error {
	switch {
	case negative(op.Timeouts):
		return errors.New("Operation.Timeouts must not be negative")
	case op.Isolation > store.Serializable:
		return fmt.Errorf("the isolation level %d does not exist. Try: store.ReadCommitted, store.RepeatableRead or store.Serializable, which have other numbers than the levels of database/sql", op.Isolation)
	}
	return nil
}

func (e *Engine[TX]) id(scope, key string) store.ID {
	if e.cfg.HashKeys && key != "" {
		key = keyname.Hashed(key)
	}
	return store.ID{Scope: scope, Key: key}
}

// skew returns by how much the caller's clock may differ from the database's.
func (e *Engine[TX]) skew(op *Operation) time.Duration {
	return or(e.cfg.Skew, min(defaultSkew, e.retain(op)/4))
}

// timeouts returns the timeouts of op. A field that op does not set comes from Config.
func (e *Engine[TX]) timeouts(op *Operation) store.Timeouts {
	t, otherwise := op.Timeouts, e.cfg.Timeouts
	return store.Timeouts{
		Acquire: or(t.Acquire, otherwise.Acquire), Lock: or(t.Lock, otherwise.Lock),
		Statement: or(t.Statement, otherwise.Statement), Idle: or(t.Idle, otherwise.Idle),
	}
}

// retain returns how long op is kept.
func (e *Engine[TX]) retain(op *Operation) time.Duration { return or(op.Retain, e.cfg.Retain) }

// tooLateFrom returns when the record of a first attempt of op may have expired. The record was written after the attempt was sent, and
// expires one retention later. Zero means never.
func (e *Engine[TX]) tooLateFrom(op *Operation) time.Time {
	if op.Attempt.FirstSent.IsZero() || e.retain(op) == Forever { // a record that never expires and is absent was never written
		return time.Time{}
	}
	return op.Attempt.FirstSent.Add(e.retain(op) - e.skew(op))
}

// Fingerprint is a version byte and a hash of the request. Fingerprints of different versions are not compared.
// So a later version of this library can use another hash, and does not refuse retries of operations that an
// earlier version has stored. If the rules of a route (oncehttp.Config.Compare) have changed, fingerprints of
// the old rules are not compared with fingerprints of the new rules.
type Fingerprint [33]byte

// FingerprintOf returns the fingerprint of parts. The fingerprint depends on the boundaries between the parts:
// ("ab", "c") and ("a", "bc") have different fingerprints.
func FingerprintOf(parts ...[]byte) Fingerprint { return fingerprint.Of(parts...) }

// isZero reports whether f is the zero fingerprint, which is never compared.
func (f Fingerprint) isZero() bool { return f == Fingerprint{} }

// matches reports whether a request with the fingerprint f may get a result that was stored with the fingerprint
// s.
func (f Fingerprint) matches(s []byte) bool {
	return f.isZero() || !fingerprint.Differ(f[:], s)
}
