package lease

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/internal/sql/audit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Resolution is a person's decision about an operation whose outcome is unknown. Two fields are required:
// CallID, and exactly one of CallValue, Result, Answer, Failure and RunAgain.
type Resolution struct {
	// CallID identifies the call about which the person decides. CallID is the [Progress.CallID] that
	// the person has seen. If the CallID of the operation has changed since then, Resolve writes
	// nothing.
	CallID string

	// CallValue is the value that the call returns, as JSON. CallValue says that the call with the unknown
	// outcome has happened. The operation continues after the call when the next caller or a [Completer]
	// takes the operation over. CallValue must be the JSON that the program itself would have saved. If the
	// program cannot decode CallValue, the outcome is unknown again, and [Begun.Refused] says why.
	CallValue json.RawMessage

	// Result is the value that the operation returns from now on, as JSON. Result says that the call has
	// happened, and that the handler would have returned this value. With Result, no phase after the call
	// runs.
	Result json.RawMessage

	// Answer is the answer that the operation of an HTTP route returns from now on: status, header and body.
	// With Answer, no phase after the call runs.
	Answer *store.Result

	// Failure is the failure that the operation returns from now on. Failure says that the call has not
	// happened, and never will.
	Failure *once.Failure

	// RunAgain allows the next caller or a [Completer] to make the call again under the same key. The
	// permission ends one hour after Resolve has written the decision. If the first call has taken effect,
	// the second call has no further effect only if the service deduplicates by the key and still remembers
	// the key. If no phase and no call of the operation is stored, the next caller executes the operation
	// from the beginning.
	RunAgain bool

	// KeyVoided says that the service refuses the old key from now on: see [Voided]. KeyVoided requires
	// RunAgain, and the call is made again under another key.
	KeyVoided bool

	// Retain is how long a Result, Answer or Failure is kept. After the time Retain the next caller executes the
	// operation again. Default: the retention that was stored with the first claim. If an engine without leases
	// has written the record of the operation, the default is once.Forever.
	Retain time.Duration

	// Who names the person who has decided, and Reason says why. Who and Reason are written to the audit (table
	// once_audit of package operate) in the same commit as the decision. If Who is "", no entry is written to
	// the audit. An entry requires a store with SQL tables.
	Who, Reason string
}

// Resolve writes the decision of a person about an operation whose outcome is unknown. If the same decision
// about the same call was already written, even by another person, Resolve returns nil and writes nothing. So
// after an error of the kind [store.KindLost], you can call Resolve again. An error of the kind
// [store.KindTaken] says that Resolve has changed nothing. An error of the kind store.KindTaken has one of three
// reasons: the outcome of the operation is already known, the operation waits for a decision about a different
// call, or a different decision about the same call was already written.
func Resolve(ctx context.Context, ops store.Operations, id store.ID, how Resolution) error {
	if err := how.check(); err != nil {
		return misused(err)
	}
	if err := owner.Check(ctx, id.Scope); err != nil {
		return misused(err)
	}
	var lost error // set after a COMMIT without an answer
	for runs, delay := 1, held.FirstDelay; ; runs, delay = runs+1, min(2*delay, held.MaxDelay) {
		err := how.once(ctx, ops, id, lost != nil)
		kind := store.KindOf(err)
		if kind == store.KindLost && lost == nil {
			// The write may have been applied. From here on the record decides, within a time limit of its own.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, held.SettleTime) //nolint:fatcontext // once: lost is set now
			defer cancel()
			lost = err
		}
		overtaken := kind == store.KindRetry || errors.Is(err, errOvertaken)
		switch {
		case err == nil, !overtaken && (kind == store.KindTaken || kind == store.KindMisused):
			return err
		case lost == nil && (!overtaken || runs >= maxRuns), !held.Pause(ctx, rand.N(delay)):
			return cmp.Or(lost, err)
		}
	}
}

// errOvertaken says that the record has changed between the read and the write.
var errOvertaken = errors.New("another process has changed the operation at the same time. Try: resolve the operation again")

// once compares the decision with the record, and writes the decision. again says that an earlier write of it may have been
// applied.
func (how Resolution) once(ctx context.Context, ops store.Operations, id store.ID, again bool) error {
	rec, err := ops.Read(ctx, id)
	if err != nil {
		return err //nolint:wrapcheck // it is of the store
	}
	if again && how.RunAgain && rec.State == store.StateAbsent {
		return nil // only this decision can have made an unknown operation absent
	}
	s, err := decodeSaved(rec.Data)
	if err != nil {
		return misused(err)
	}
	if stands, err := how.compare(rec, s); stands || err != nil {
		return err
	}
	if n, most := s.size()+len(how.CallValue), mostSaved(ops); how.CallValue != nil && n > most {
		return misused(&toolarge.Error{Bytes: int64(n), Max: int64(most), Try: "a smaller value of the call, such as the key of what it has made"})
	}
	c, err := how.change(s)
	if err == nil {
		c.Writes, err = how.audited(ops, id, rec, s)
	}
	if err != nil {
		return misused(err)
	}
	c.ID, c.KeepRequest = id, true
	// The write applies only to the record that the person has seen, and not if an owner is alive.
	c.Expect = store.Expect{Fence: rec.Fence, Nonce: rec.Nonce, LeaseExpired: rec.State == store.StateRunning}
	if c.Next.State != store.StateAbsent {
		// A new fence, so that a late write of the last owner is refused.
		c.Next.Fence, c.Next.Nonce = rec.Fence+1, held.NewNonce()
	}
	if _, err = ops.Swap(ctx, c); store.KindOf(err) == store.KindTaken {
		return &store.Error{Kind: store.KindTaken, Err: errOvertaken}
	}
	return err //nolint:wrapcheck // it is of the store
}

func misused(err error) error { return &store.Error{Kind: store.KindMisused, Err: err} }

// mostSaved returns how many bytes an operation may save.
func mostSaved(ops store.Operations) int {
	if s, ok := store.As[*Store](ops); ok {
		return s.cfg.MaxSaved
	}
	return DefaultMaxSaved
}

// compare reports whether the same decision is stored already. It returns an error if another decision is stored, or if nothing needs one.
func (how Resolution) compare(rec store.Record, s saved) (stands bool, err error) {
	taken := func(format string, args ...any) (bool, error) {
		return false, &store.Error{Kind: store.KindTaken, Err: fmt.Errorf(format, args...)}
	}
	if i := slices.IndexFunc(s.Was, func(d decided) bool { return d.ID == how.CallID }); i >= 0 {
		if s.Was[i].Sum == how.sum() {
			return true, nil
		}
		return taken("an earlier decision about the call %s was different: %s. Try: lease.ProgressOf, which returns the call whose outcome is unknown now", how.CallID, s.Was[i].What)
	}
	if !isUnknown(rec, s) {
		return taken("the state of the operation is %s, and only an unknown operation can be resolved. Try: lease.ProgressOf, which returns the state of the operation", rec.State)
	}
	if now := callID(rec, s); now != how.CallID {
		what := "the operation as it is now, " + now
		if s.Call != nil {
			what = s.Call.String() + ", " + now
		}
		return taken("the decision is about the call ID %q, but the unknown outcome belongs to %s. Try: lease.ProgressOf, and the CallID that it returns", how.CallID, what)
	}
	return false, nil
}

// sum returns a hash that tells decisions apart. Who has decided and why does not count.
func (how Resolution) sum() string {
	how.CallID, how.Who, how.Reason = "", "", ""
	b, err := json.Marshal(how) //nolint:musttag // it is only hashed
	if err != nil {             // cannot happen: check has refused values that are not JSON
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// isUnknown reports whether only a person can continue the operation. It also finds an operation whose owner
// has died in a call, if no caller has come since, so that the state is not stored yet.
func isUnknown(rec store.Record, s saved) bool {
	return rec.State == store.StateUnknown || rec.Idle() && !s.Call.resumable(time.Now())
}

// check returns an error if the fields of the decision contradict each other.
func (how Resolution) check() error {
	set := 0
	for _, is := range []bool{how.CallValue != nil, how.Result != nil, how.Answer != nil, how.Failure != nil, how.RunAgain} {
		if is {
			set++
		}
	}
	switch {
	case how.CallID == "":
		return errors.New("Resolution.CallID is empty. Try: the CallID that lease.ProgressOf returns")
	case set != 1:
		return fmt.Errorf("a Resolution must have exactly one of CallValue, Result, Answer, Failure and RunAgain, and this one has %d. Try: set one of these fields", set)
	case how.KeyVoided && !how.RunAgain:
		return errors.New("the Resolution has KeyVoided without RunAgain. Try: set both fields")
	case how.Retain < 0:
		return fmt.Errorf("Resolution.Retain is %v, and must not be negative. Try: once.Forever", how.Retain)
	case how.Retain != 0 && (how.RunAgain || how.CallValue != nil):
		return errors.New("the Resolution has a Retain, but the operation continues: Retain is only for a decision that ends the operation. Try: leave Retain out")
	case how.Failure != nil && len(how.Failure.Detail) > 0 && !json.Valid(how.Failure.Detail):
		return errors.New("the Detail of Resolution.Failure is not valid JSON. Try: a JSON string")
	case how.Result != nil && !json.Valid(how.Result), how.CallValue != nil && !json.Valid(how.CallValue):
		return errors.New("the Result or CallValue of the Resolution is not valid JSON. Try: the JSON of the value that the program would have returned")
	case how.Answer != nil && (how.Answer.Kind != store.ResultValue || how.Answer.Status < 200 || how.Answer.Status > 599):
		return fmt.Errorf("Resolution.Answer has status %d or is not a value: an HTTP answer has a status from 200 to 599. Try: such a status, or Resolution.Failure for a failure", how.Answer.Status)
	}
	return nil
}

// change returns the change that a resolution makes to a record with these phases.
func (how Resolution) change(s saved) (c store.Change, err error) {
	was := decided{ID: how.CallID, Sum: how.sum(), What: how.words(s)}
	if how.RunAgain || how.CallValue != nil {
		return how.goesOn(s, was)
	}
	c.Next.State, c.Next.Data = store.StateDone, s.decided(was).ended().encode()
	c.Retain = cmp.Or(how.Retain, s.Retain)
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

// goesOn returns the change after which the operation waits, so that the next owner continues it.
func (how Resolution) goesOn(s saved, was decided) (c store.Change, err error) {
	switch {
	case s.Call == nil && how.CallValue != nil:
		return c, errors.New("the Resolution has a CallValue, but the operation has no call whose outcome is unknown. Try: Resolution.Result")
	case how.KeyVoided && (s.Call == nil || s.Call.Tx):
		return c, errors.New("the Resolution has KeyVoided, but the operation has no call whose outcome is unknown. Try: RunAgain without KeyVoided")
	case s.Call == nil && s.isEmpty(): // an engine without leases has begun the work: the operation is released, and begins again
		return c, nil
	case s.Call == nil:
	case how.CallValue != nil:
		s = s.with(phase{Name: s.Call.Phase, Value: how.CallValue, ByHand: true, Begun: s.Call})
	case how.KeyVoided:
		s = s.void(s.Call.Phase)
	default:
		again := *s.Call
		again.ID, again.Repeat, again.Until = newCallID(), true, time.Now().Add(time.Hour).UTC()
		s.Call = &again
	}
	s = s.decided(was)
	c.Next = store.Record{State: store.StateWaiting, Data: s.encode(), RecoveryPoint: s.last(), CallStarted: s.Call != nil}
	return c, nil
}

// audited returns the statement that writes the entry of the audit, if one is wanted.
func (how Resolution) audited(ops store.Operations, id store.ID, rec store.Record, s saved) ([]store.Statement, error) {
	if how.Who == "" {
		return nil, nil
	}
	db, ok := store.As[sqlplane.Database](ops)
	if !ok {
		return nil, errors.New("the store has no SQL tables, so it cannot store the name of the operator who decides. Try: a Resolution without Who")
	}
	e := audit.Entry{
		Who: how.Who, Action: "resolve", Scope: id.Scope, KeyHash: keyname.Hashes(id.Key)[0], Reason: how.Reason,
		Detail: fmt.Sprintf("%s, fence %d, call %s: %s", rec.State, rec.Fence, how.CallID, how.words(s)),
	}
	return []store.Statement{audit.Insert(db.Dialect(), e)}, nil
}

// words describes a resolution for the audit, and for an error of a later decision.
func (how Resolution) words(s saved) string {
	what := ""
	switch {
	case s.Call == nil && how.RunAgain:
		return "runs again"
	case how.RunAgain && s.Call.Tx:
		return s.Call.String() + " is executed again"
	case how.RunAgain && how.KeyVoided:
		return s.Call.String() + " is made again under a new key"
	case how.RunAgain:
		return s.Call.String() + " is made again under the same key"
	case how.CallValue != nil && s.Call != nil:
		return fmt.Sprintf("%s has returned %d bytes, and the operation goes on", s.Call, len(how.CallValue))
	case how.Result != nil:
		what = fmt.Sprintf("a result of %d bytes", len(how.Result))
	case how.Answer != nil:
		what = fmt.Sprintf("an answer of status %d, %d bytes", how.Answer.Status, len(how.Answer.Body))
	case how.Failure != nil:
		what = "failed as " + how.Failure.Code
	}
	if s.Call != nil {
		what += ", in " + s.Call.String()
	}
	return what
}
