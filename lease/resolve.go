package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/audit"
	"github.com/oncelib/once/store"
)

// Resolution is what a person has found out about an operation whose outcome is unknown. Exactly one of Result, Answer, Failure
// and RunAgain is set.
type Resolution struct {
	// Result is what the operation returns from now on: the call has happened, and this is what the handler
	// would have returned, as JSON.
	Result json.RawMessage

	// Answer is what the operation answers from now on, if it is one of an HTTP route: status, header and body.
	Answer *store.Result

	// Failure is what the operation returns from now on: the call has not happened, and never will.
	Failure *once.Failure

	// RunAgain lets the next caller, or a [Completer], make the call again under the same key, within an hour. It has
	// one effect only if the service dedupes by the key, and still knows it then. If nothing was saved of the
	// operation, the next caller executes it from the beginning.
	RunAgain bool

	// KeyVoided says with RunAgain that the service refuses the old key from now on (see [Voided]): the call is made
	// again under another key.
	KeyVoided bool

	// Retain is how long a Result, Answer or Failure is kept. When the record is gone the next caller executes again. Default:
	// as long as the result would have been, which the first claim has stored; for ever if an engine without leases has written the record.
	Retain time.Duration

	// Who has found it out, and Reason, are written to the audit (table once_audit of package admin) in the same commit. Who "": nothing is
	// written. It needs a store with tables.
	Who, Reason string
}

// Resolve ends that the outcome of an operation is unknown. It changes nothing else: an error of kind [store.KindTaken] says that
// the operation is not unknown, or no longer. After one of [store.KindLost] it may be resolved; to resolve it again does no harm.
func Resolve(ctx context.Context, ops store.Operations, id store.ID, how Resolution) error {
	rec, err := ops.Read(ctx, id)
	if err != nil {
		return err //nolint:wrapcheck // it is of the store
	}
	s, err := decodeSaved(rec.Data)
	if err != nil {
		return &store.Error{Kind: store.KindMisused, Err: err}
	}
	if !isUnknown(rec, s) {
		return &store.Error{Kind: store.KindTaken, Err: fmt.Errorf("the operation is %s, not unknown", rec.State)}
	}
	c, err := how.change(s)
	if err == nil {
		c.Writes, err = how.audited(ops, id, rec, s)
	}
	if err != nil {
		return &store.Error{Kind: store.KindMisused, Err: err}
	}
	c.ID, c.Keep = id, true
	c.Expect = store.Expect{Fence: rec.Fence, Nonce: rec.Nonce, LeaseExpired: rec.State == store.StateRunning}
	if c.Next.State != store.StateAbsent {
		c.Next.Fence, c.Next.Nonce = rec.Fence+1, newNonce()
	}
	for runs := 1; ; runs++ {
		_, err = ops.Swap(ctx, c)
		if store.KindOf(err) != store.KindRetry || runs >= maxRuns || !sleep(ctx, rand.N(5*time.Millisecond)) {
			return err //nolint:wrapcheck // it is of the store
		}
	}
}

// isUnknown reports whether only a person can go on: also if no caller has come since the owner died in a call, so that
// it is not stored yet.
func isUnknown(rec store.Record, s saved) bool {
	return rec.State == store.StateUnknown || rec.State == store.StateRunning && rec.LeaseExpired && !s.Call.resumable(time.Now())
}

// change is what a resolution makes of a record with these phases.
func (how Resolution) change(s saved) (c store.Change, err error) {
	set := 0
	for _, is := range []bool{how.Result != nil, how.Answer != nil, how.Failure != nil, how.RunAgain} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return c, fmt.Errorf("%d ways to resolve the operation are given. Try: one of Result, Answer, Failure and RunAgain", set)
	case how.KeyVoided && !how.RunAgain:
		return c, errors.New("that the old key is voided says how to run again, and it is not to run again")
	case how.Retain < 0:
		return c, fmt.Errorf("a Retain of %v keeps nothing. Try: once.KeepForever", how.Retain)
	case how.Result != nil && !json.Valid(how.Result):
		return c, errors.New("the result is not JSON")
	case how.Answer != nil && (how.Answer.Kind != store.ResultValue || how.Answer.Status < 200 || how.Answer.Status > 599):
		return c, fmt.Errorf("an answer of status %d cannot be one over HTTP. Try: 200 to 599, and Failure for a failure", how.Answer.Status)
	case how.RunAgain:
		return how.runAgain(s)
	}
	c.Next.State = store.StateDone
	if retain := cmp.Or(how.Retain, s.Retain); retain != once.KeepForever {
		c.Retain = retain // 0: for ever
	}
	switch {
	case how.Answer != nil:
		c.Next.Result = *how.Answer
	case how.Result != nil:
		c.Next.Result.Body = how.Result
	default:
		c.Next.Result.Kind = store.ResultFailure
		c.Next.Result.Body, err = json.Marshal(how.Failure)
	}
	return c, err
}

// runAgain parks the operation so that its call can be made again.
func (how Resolution) runAgain(s saved) (c store.Change, err error) {
	switch {
	case how.KeyVoided && (s.Call == nil || s.Call.Tx):
		return c, errors.New("the operation has no call whose key could be voided. Try: RunAgain alone")
	case s.Call == nil && s.isEmpty(): // the work of an engine without leases, which takes over nothing
		return c, nil
	case s.Call == nil:
	case how.KeyVoided:
		s = s.void(s.Call.Phase)
	default:
		again := *s.Call
		again.Repeat, again.Until = true, time.Now().Add(time.Hour).UTC()
		s.Call = &again
	}
	c.Next = store.Record{State: store.StateRunning, Data: s.encode(), RecoveryPoint: s.last(), CallStarted: s.Call != nil}
	c.Lease = parked
	return c, nil
}

// audited is the entry of the audit, if one is wanted.
func (how Resolution) audited(ops store.Operations, id store.ID, rec store.Record, s saved) ([]store.Statement, error) {
	if how.Who == "" {
		return nil, nil
	}
	db, ok := store.As[store.Database](ops)
	if !ok {
		return nil, errors.New("the store has no tables, and so no audit. Try: Resolution without Who")
	}
	e := audit.Entry{
		Who: how.Who, Action: "resolve", Scope: id.Scope, KeyHash: audit.KeyHashes(id.Key)[0], Reason: how.Reason,
		Detail: fmt.Sprintf("%s, fence %d: %s", rec.State, rec.Fence, how.words(s)),
	}
	return []store.Statement{audit.Insert(db.Dialect(), e)}, nil
}

// words say what a resolution does.
func (how Resolution) words(s saved) string {
	switch {
	case how.Result != nil:
		return fmt.Sprintf("a result of %d bytes", len(how.Result))
	case how.Answer != nil:
		return fmt.Sprintf("an answer of status %d, %d bytes", how.Answer.Status, len(how.Answer.Body))
	case how.Failure != nil:
		return "failed as " + how.Failure.Code
	case s.Call == nil:
		return "runs again"
	case s.Call.Tx:
		return "phase " + s.Call.Phase + " is executed again"
	case how.KeyVoided:
		return "call " + s.Call.Phase + " is made again under a new key"
	}
	return "call " + s.Call.Phase + " is made again under the same key"
}
