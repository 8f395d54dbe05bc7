package lease

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/atmostonce"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/store"
)

// Call runs a phase that calls another service. The operation commits the intent (a note that the call is
// about to be made) before fn runs. The value of fn is committed with the next commit of the operation. The
// key that fn gets is derived from the operation and the phase. The key is the same each time the call is
// made, on any node, so that a service which deduplicates by the key executes the call one time.
//
// If the outcome of the call is not known, because fn has returned an error or because the owner of the lease
// has died, the parameter policy decides whether the call is made again. With the zero CallPolicy the call is
// not made again, and the outcome of the operation is unknown ([once.CodeUnknown]). If the policy has neither
// SafeToRepeat nor DedupedFor, a client of package retryhttp sends the request only one time, provided that fn
// passes its context to the client. A client of net/http may send the request twice: if a connection breaks,
// net/http repeats a request that has an Idempotency-Key.
//
// If fn returns a [once.Failure], the failure is stored as the outcome of the call, and a later run gets the
// same failure. If the call may have been made before, fn must return a once.Failure only if the service gives
// the same answer to each request with the key, even to a request that arrives late. An error made by [NotSent]
// says that the call was not made. After an error that is neither a once.Failure nor made by NotSent, the call
// may have taken effect; the handler may then call the function Call again with the same phase, if the policy
// allows a second call.
//
// If the service answers that it has already applied a request with the key, fn should return the existing
// result. If the answer does not contain the existing result, fn should return a [once.Failure] with the code
// "PROVIDER.duplicate". If fn returns this failure, the [Check] of the policy can find the existing result
// under the same key.
func Call[T any](ctx context.Context, r *Run, phase string, fn func(ctx context.Context, key string) (T, error), policy CallPolicy) (T, error) {
	return makeCall(ctx, r, call{phase: phase}, nil, func(ctx context.Context, key string, _ []byte) (T, error) { return fn(ctx, key) }, policy)
}

// CallWith is [Call] with a frozen request: every attempt, on any node, sends the request bytes of the first
// attempt. The request bytes are the same even if the program, its configuration or its data has changed after
// the first attempt. CallWith does not repeat a call that was begun by Call, because Call does not store the
// request bytes. Call does not repeat a call that was begun by CallWith.
func CallWith[T any](ctx context.Context, r *Run, phase string, request []byte, fn func(ctx context.Context, key string, request []byte) (T, error), policy CallPolicy) (T, error) {
	return makeCall(ctx, r, call{phase: phase, freezes: true}, request, fn, policy)
}

func makeCall[T any](ctx context.Context, r *Run, c call, request []byte, fn func(ctx context.Context, key string, request []byte) (T, error), policy CallPolicy) (value T, err error) {
	phase := c.phase
	if policy.Check.find != nil && policy.Check.of != reflect.TypeFor[T]() {
		return value, fmt.Errorf("%w: call %q returns the type %v, but its Check returns the type %v. Try: one type for both", ErrMisused, phase, reflect.TypeFor[T](), policy.Check.of)
	}
	leave, err := r.enter(phase)
	if err != nil {
		return value, err
	}
	defer leave()
	if done, ok := r.saved.find(phase); ok {
		return earlier[T](r, done)
	}
	c.run, c.policy = r, policy
	err = r.trace(ctx, Phase{Name: phase, Call: true}, func(ctx context.Context) error {
		return c.make(ctx, request, func(ctx context.Context, key string, request []byte) (any, error) { return fn(ctx, key, request) })
	})
	if err != nil {
		return value, err
	}
	done, _ := r.saved.find(phase)
	return decode[T](r, done)
}

// CallPolicy describes what the called service guarantees. CallPolicy decides what happens to a call whose
// outcome is not known. With the zero CallPolicy the call is not made again, and the outcome of the operation
// is unknown until a person decides.
type CallPolicy struct {
	// SafeToRepeat says that any number of calls with the same key, even late calls, have the effect of one
	// call. SafeToRepeat is right if the service deduplicates and never forgets a key, or if the call sets a
	// field to a fixed value and nothing else sets this field. For a service that forgets keys, set
	// DedupedFor, which takes precedence over SafeToRepeat.
	SafeToRepeat bool

	// DedupedFor is how long the called service remembers the key by which the service recognizes repeated
	// calls. The call can be made again until nine tenths of DedupedFor have passed since the intent was
	// committed, by the clocks of the processes. The context of the call also ends after nine tenths of
	// DedupedFor. After nine tenths of DedupedFor the outcome is unknown, unless the policy also has a Check.
	DedupedFor time.Duration

	// Check asks the service whether the call took effect: see the function [Check].
	Check CallCheck

	// CheckedFor is how long the service keeps the data that Check needs. Check is called until nine tenths of
	// CheckedFor have passed since the intent was committed, by the clocks of the processes. Then the context of
	// Check ends, and a later answer [Voided] does not count. After nine tenths of CheckedFor the outcome is
	// unknown until a person decides. If CheckedFor is zero, the service keeps the data for ever.
	CheckedFor time.Duration
}

// repeats reports whether the policy allows to make a call again, at least for some time.
func (p CallPolicy) repeats() bool { return p.DedupedFor > 0 || p.DedupedFor == 0 && p.SafeToRepeat }

// life returns how long a call may be made again. 0 means for ever.
func (p CallPolicy) life() time.Duration { return sure(p.DedupedFor) }

// sure returns nine tenths of a promised time, because the clocks of processes differ from the service's clock.
func sure(life time.Duration) time.Duration { return max(0, life-life/10) }

// CallCheck finds out whether a call took effect. The function [Check] returns a CallCheck.
type CallCheck struct {
	find func(ctx context.Context, key string) (value json.RawMessage, found Finding, err error)
	of   reflect.Type // the type of the value that find returns
}

// Check returns a CallCheck that calls find to ask the service whether a call took effect. The function find
// gets the key of the call, and returns a [Finding]. If find returns an error, the finding counts as
// [Unclear]. T is the type that the call returns.
func Check[T any](find func(ctx context.Context, key string) (T, Finding, error)) CallCheck {
	return CallCheck{of: reflect.TypeFor[T](), find: func(ctx context.Context, key string) (json.RawMessage, Finding, error) {
		value, found, err := find(ctx, key)
		if err != nil || found != Happened {
			return nil, found, err
		}
		b, err := json.Marshal(value)
		return b, found, err
	}}
}

// Finding is the answer of a [Check].
type Finding uint8

const (
	// Unclear means that the service has no record of the call, or does not answer. The call may still reach
	// the service.
	Unclear Finding = iota
	// Happened means that the call has taken effect. The check returns Happened together with the
	// value of the call.
	Happened
	// Voided means that the call has not taken effect, and never will: a tombstone makes the service refuse the
	// key from now on. A tombstone is, for example, a cancelled payment under the same key, or a row with the
	// key that the service inserts before it acts. The call can be made again, under another key.
	Voided
)

// String returns the name of the finding.
func (f Finding) String() string {
	switch f {
	case Happened:
		return "happened"
	case Voided:
		return "voided"
	}
	return "unclear"
}

// NotSent returns an error which says that a call was not made: the service has not received the call and never
// will. Use NotSent if no connection was made, or if the request could not be built. Do not use NotSent after a
// timeout.
func NotSent(err error) error { return &notSentError{err} }

// IsNotSent reports whether err, or an error in its chain, was made by [NotSent].
func IsNotSent(err error) bool { return errors.As(err, new(*notSentError)) }

type notSentError struct{ err error }

func (e *notSentError) Error() string { return "not sent: " + e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// Key returns the key of a phase's call: the UUID that Call passes to its function. The parameter voided is
// how many earlier keys of the phase were voided, usually 0. Key is for operators who search for a call in
// the records of the service. The result of Key never changes between versions of this library.
func Key(scope, key, phase string, voided int) string {
	sum := sha256.Sum256([]byte(once.DeriveKey(scope, key, phase, strconv.Itoa(voided))))
	u := sum[:16]
	// The version and the variant of a UUID.
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8: a hash of its inputs
	s := hex.EncodeToString(u)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// call is a call that a run makes.
type call struct {
	run     *Run
	phase   string
	policy  CallPolicy
	freezes bool // the call is a CallWith, whose request is stored
	again   bool // the call may have been sent before, under the same key
}

func (c *call) key() string {
	r := c.run
	return Key(r.id.Scope, r.id.Key, c.phase, r.saved.generation(c.phase))
}

// make makes the call, or finds out the outcome of an earlier attempt. If it returns no error, the outcome is known, and the next write of the run stores it.
func (c *call) make(ctx context.Context, request []byte, fn func(ctx context.Context, key string, request []byte) (any, error)) error {
	r := c.run
	if begun := r.saved.Call; begun != nil { // begun by this run, or by an earlier owner
		frozen, err := r.frozen(begun)
		if err != nil {
			return fmt.Errorf("call %q is not made: %w: %w", c.phase, ErrUnknown, err)
		}
		if err := c.resumes(begun, frozen, request); err != nil {
			return err
		}
		// The service must see the same bytes under the same key, whatever the program would send now.
		if c.again = true; c.freezes && frozen != nil {
			request = frozen
		}
		if !begun.repeats(time.Now()) {
			// It can no longer be repeated, so the service must be asked.
			if err := c.find(ctx, errNoAnswer); err != nil || r.saved.has(c.phase) {
				return err
			}
		}
	}
	if r.saved.Call == nil {
		// Voided, or never begun: the call has a new key, and was not sent under it.
		c.again = false
		if err := c.begin(ctx, request); err != nil {
			return err
		}
	}
	if !r.saved.Call.Repeat {
		// In this context, a client of package retryhttp sends a request only once, even if the connection breaks.
		ctx = atmostonce.Mark(ctx)
	}
	called := ctx
	if c.again {
		called = atmostonce.MarkAgain(ctx)
	}
	if until := r.saved.Call.Until; !until.IsZero() {
		// A client that repeats the request in fn must stop before the service forgets the key: a later request
		// would be another call.
		var cancel context.CancelFunc
		called, cancel = context.WithDeadline(called, until)
		defer cancel()
	}
	// The process may have stood still since the intent was committed or read.
	if late, err := c.late(ctx); late {
		return err
	}
	value, err := fn(called, c.key(), bytes.Clone(request)) // a copy, because fn may write to it
	return c.answered(ctx, value, err)
}

var errLate = errors.New("nine tenths of DedupedFor had passed before the call was made, so the service may forget the key. Try: check that the database answers. If it does, DedupedFor is too short for its commits")

// late reports whether it is too late to make a call that was begun: the lease is lost, or the service may forget the key. If err is
// nil, a Check has found the outcome.
func (c *call) late(ctx context.Context) (late bool, err error) {
	r := c.run
	switch begun := r.saved.Call; {
	case !r.own.Holds(ctx):
		err = fmt.Errorf("call %q is not made: %w", c.phase, ErrLost)
	case begun.Until.IsZero() || time.Now().Before(begun.Until):
		return false, nil
	case c.again: // an earlier attempt may have been sent
		return true, c.find(ctx, errLate)
	default:
		err = fmt.Errorf("call %q is not made: %w", c.phase, NotSent(errLate))
	}
	if !c.again {
		// No earlier attempt was sent with this key, unless another owner has taken the operation over. Then this run writes nothing more.
		r.saved.Call = nil
	}
	return true, err
}

// resumes returns an error if another version of the program has begun the call, and this version would send
// something else under the same key.
func (c *call) resumes(begun *intent, frozen, request []byte) error {
	switch {
	case begun.Tx:
		return fmt.Errorf("call %q is not made: an earlier phase with this name has ended its transaction itself: %w. Try: another name for the call", c.phase, ErrUnknown)
	case !begun.repeats(time.Now()): // the call is not sent again
	case c.freezes && frozen == nil && len(request) > 0:
		return fmt.Errorf("call %q is not made: %w: an earlier run has begun this call with lease.Call, which does not store the request, so lease.CallWith could send another request with the same key: %w. Try: lease.Call for this name until all operations that have begun this call have ended", c.phase, ErrMisused, ErrUnknown)
	case !c.freezes && len(frozen) > 0:
		return fmt.Errorf("call %q is not made: %w: an earlier run has begun this call with lease.CallWith, which has stored the request, but lease.Call could send another request with the same key: %w. Try: lease.CallWith for this name until all operations that have begun this call have ended", c.phase, ErrMisused, ErrUnknown)
	}
	return nil
}

// codeDuplicate is the code of a failure which says that the service has applied the call before, under the same key. The outcome is
// not that failure, but the answer that the service gave then.
const codeDuplicate = "PROVIDER.duplicate"

var errNoAnswer = errors.New("the record has no answer to an earlier attempt of the call")

// begin commits the intent.
func (c *call) begin(ctx context.Context, request []byte) error {
	r := c.run
	r.tellUnreached(ctx, c.phase)
	i := intent{Phase: c.phase, ID: r.callID(c.phase), Repeat: c.policy.repeats(), Check: c.policy.Check.find != nil, Begun: time.Now().UTC()}
	if err := r.freeze(&i, bytes.Clone(request)); err != nil {
		return fmt.Errorf("call %q is not made: %w", c.phase, err)
	}
	if life := c.policy.life(); life > 0 {
		i.Until = i.Begun.Add(life)
	}
	if i.Check {
		i.CheckFor = sure(c.policy.CheckedFor)
	}
	next, err := r.fits(r.saved.begun(i))
	if err != nil {
		return err
	}
	switch err := r.swap(ctx, r.running(next)); {
	case store.KindOf(err) == store.KindTaken:
		r.own.Lose(true)
		return fmt.Errorf("call %q is not made: %w: %w", c.phase, ErrLost, err)
	case err != nil:
		return fmt.Errorf("call %q is not made: %w", c.phase, err)
	}
	r.saved = next
	return nil
}

// answered records the result of fn in the run. The next write of the run stores it.
func (c *call) answered(ctx context.Context, value any, err error) error {
	r := c.run
	var failure *once.Failure
	var unsent *notSentError
	switch {
	case err == nil:
		next, err := r.done(c.phase, value)
		return c.save(next, err)
	case errors.As(err, &unsent) && !c.again:
		// NotSent speaks only of this attempt: an earlier attempt with the same key may have been sent.
		r.saved.Call = nil
		return err
	case unsent == nil && errors.As(err, &failure) && failure != nil && failure.Code != codeDuplicate:
		next, err := r.failed(c.phase, *failure)
		if err := c.save(next, err); err != nil {
			return err
		}
		return failure
	case failure != nil: // a duplicate is no final answer, even if the service has voided the first request
		err = errors.New(err.Error())
	}
	if c.policy.Check.find == nil || r.own.HasEnded() {
		return c.unanswered(err)
	}
	return c.find(ctx, err)
}

// save keeps the answer of the call for the next commit. If the answer cannot be saved, the outcome of the call
// becomes unknown, although the call has happened.
func (c *call) save(next saved, err error) error {
	r := c.run
	if err != nil {
		// The call has happened, so nothing may make it again, and no Check may void it.
		r.saved.Call.Repeat, r.saved.Call.Check = false, false
		return fmt.Errorf("the service has answered call %q, but the answer is not saved: %w: %w", c.phase, ErrUnknown, err)
	}
	r.saved = next
	return nil
}

// find asks the service whether the call took effect. Without an error, the outcome is in r.saved, or the call can be made under a new key.
func (c *call) find(ctx context.Context, cause error) error {
	r, now := c.run, time.Now().UTC()
	// Both times count: the one of the policy when the call was begun, and the one of the policy now.
	forgotten := func(now time.Time) bool {
		return !r.saved.Call.checks(now) || !r.saved.Call.isYounger(sure(c.policy.CheckedFor), now)
	}
	tooOld := fmt.Errorf("call %q: %w: the call is so old that the service may have forgotten its key: %w", c.phase, ErrUnknown, cause)
	switch {
	case c.policy.Check.find == nil || !r.saved.Call.Check:
		return c.unanswered(cause)
	case forgotten(now):
		return tooOld
	}
	age := sure(c.policy.CheckedFor)
	if begun := r.saved.Call.CheckFor; begun > 0 && (age == 0 || begun < age) {
		age = begun
	}
	if age > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.saved.Call.Begun.Add(age))
		defer cancel()
	}
	// Set before the question, so that a question without an answer also counts for AskEvery.
	r.saved.Call.Asked = now
	value, found, err := c.policy.Check.find(ctx, c.key())
	switch {
	case err != nil:
		return c.unanswered(errors.Join(cause, err))
	case found == Happened:
		next, err := r.with(phase{Name: c.phase, Value: value})
		return c.save(next, err)
	case found == Voided && forgotten(time.Now()): // the service may have forgotten a call that has taken effect
		return tooOld
	case found == Voided:
		r.saved = r.saved.void(c.phase)
		if errors.Is(cause, errNoAnswer) {
			// This run has sent nothing yet: the call is made now, under a new key.
			return nil
		}
		return fmt.Errorf("call %q: %w: %w", c.phase, ErrVoided, cause)
	}
	return c.unanswered(cause)
}

// unanswered returns the error of a call whose outcome is not known. If the call is made again, no person has to decide.
func (c *call) unanswered(cause error) error {
	begun := c.run.saved.Call
	if !begun.repeats(time.Now()) {
		return fmt.Errorf("call %q: %w: %w", c.phase, ErrUnknown, cause)
	}
	return &unansweredError{phase: c.phase, until: begun.Until, cause: cause}
}

// unansweredError is [ErrUnknown] for now: the call is made again, and then has an answer.
type unansweredError struct {
	phase string
	until time.Time // zero: for ever
	cause error
}

func (e *unansweredError) Error() string {
	until := ""
	if !e.until.IsZero() {
		until = " until " + e.until.Format(time.RFC3339)
	}
	return fmt.Sprintf("call %q has no answer yet, and is made again with the same key%s: %v", e.phase, until, e.cause)
}

func (e *unansweredError) Unwrap() []error { return []error{ErrUnknown, e.cause} }

func newCallID() string { return hex.EncodeToString(held.NewNonce()[:4]) }

// callID returns the ID of a call that the run begins. No other run has the same ID, because no other run has the nonce.
func (r *Run) callID(phase string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d %s", r.own.Nonce, r.saved.generation(phase), phase))
	return hex.EncodeToString(sum[:4])
}
