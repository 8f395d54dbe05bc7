package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/held"
	"github.com/oncelib/once/store"
)

// Run is one run of a handler under a lease. The handler passes the Run to [InTx] and [Call]. The only
// method of a Run, Operation, returns the ID of the operation. The engine decides how the run ends. A
// handler must not run phases concurrently.
type Run struct {
	s    *Store
	own  *held.Owner // fence, nonce and lease
	id   store.ID
	opts store.BeginOptions

	phase sync.Mutex // locked while a phase runs
	saved saved      // of the phases: the ended ones, an intent, and answers that the next write stores
	given []string   // names of phases whose values were returned to the handler
	lost  error      // a write of this run may still be applied later, so the run writes nothing more

	found store.State // the state from which this run has taken the operation over
	left  string      // the state in which park has left the operation; "" if park has written nothing

	unreached []string // names of phases that earlier runs have ended, and that this run has not reached
}

func newRun(s *Store, opts store.BeginOptions) *Run {
	claim := held.Claim{Fingerprint: opts.Fingerprint, Request: opts.Request, Trace: opts.Trace, Name: opts.Name, StaleAfter: opts.StaleAfter}
	own := s.heart.NewOwner(opts.ID, claim, opts.Timeouts.Acquire)
	return &Run{s: s, own: own, id: opts.ID, opts: opts, saved: saved{Retain: opts.Retain}}
}

// Operation returns the scope and the key of the operation, as they are stored.
func (r *Run) Operation() store.ID { return r.id }

// The functions that run a phase return ErrLost, ErrUnknown, ErrVoided and ErrMisused. A handler that gets one of
// these four errors must return the error.
var (
	// ErrLost is in the chain of an error if another owner has taken the operation over, or may have
	// taken it over.
	ErrLost = errors.New("the lease of this operation is lost")

	// ErrUnknown is in the chain of an error if a call may have taken effect, and nothing proves whether the
	// call has taken effect. ErrUnknown is also returned if a phase has ended its transaction itself, for
	// example by calling a procedure that commits.
	ErrUnknown = errors.New("the outcome is unknown")

	// ErrVoided is in the chain of an error if a call has not taken effect and never will: the Check of the
	// call has returned [Voided]. If the handler calls Call again with the same phase after ErrVoided, even
	// in the same run, the new call has another key.
	ErrVoided = errors.New("the call has not taken effect and never will")

	// ErrMisused is in the chain of an error if the handler uses its phases wrongly, which is a mistake in
	// the code of the handler.
	ErrMisused = errors.New("the handler misuses its phases")
)

// enter begins a phase. The caller must call leave when the phase ends.
func (r *Run) enter(name string) (leave func(), err error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMisused, err)
	}
	// Not Lock: phases that run concurrently are a mistake, and waiting would hide it.
	if !r.phase.TryLock() {
		return nil, fmt.Errorf("%w: phase %q begins before another phase of the operation has ended. Try: run the phases one after the other", ErrMisused, name)
	}
	switch {
	case r.own.HasEnded() && !r.own.IsClosed():
		err = fmt.Errorf("phase %q: %w", name, ErrLost)
	case r.own.IsClosed():
		err = fmt.Errorf("%w: phase %q begins after the handler has returned", ErrMisused, name)
	case slices.Contains(r.given, name): // a second phase of this name would get the value of the first, and would not run
		err = fmt.Errorf("%w: the handler has two phases with the name %q in one run. Try: a separate name for each phase, such as the key of its row", ErrMisused, name)
	case r.lost != nil:
		err = fmt.Errorf("phase %q cannot begin: an earlier write of this run may still be applied: %w", name, r.lost)
	case r.saved.Call != nil && r.saved.Call.Phase != name && !r.saved.has(name):
		// The code after the call may depend on its outcome, so no new phase may begin. A phase that has ended
		// only returns its value.
		err = fmt.Errorf("phase %q cannot begin: an earlier run has begun phase %q: %w", name, r.saved.Call.Phase, ErrUnknown)
	}
	if err != nil {
		r.phase.Unlock()
		return nil, err
	}
	if i := slices.Index(r.unreached, name); i >= 0 {
		r.unreached = slices.Delete(r.unreached, i, i+1)
	}
	return func() {
		if p, ok := r.saved.find(name); ok && p.Failure == nil {
			r.given = append(r.given, name)
		}
		r.phase.Unlock()
	}, nil
}

// tellUnreached warns once if the program has not reached phases that an earlier run has ended. If they have other names now,
// they are executed again.
func (r *Run) tellUnreached(ctx context.Context, call string) {
	if len(r.unreached) == 0 {
		return
	}
	log := cmp.Or(r.s.cfg.Log, slog.Default())
	log.WarnContext(ctx, "the handler has not reached phases that an earlier run has finished. If the program has renamed these phases, they are executed again. Try: the earlier names of the phases",
		"scope", r.id.Scope, "idempotency_key", keyname.Hashes(r.id.Key)[0], "phases", r.unreached, "call", call)
	r.unreached = nil
}

// maxName is the length of the longest name of a phase that each database can store, in bytes.
const maxName = 255

// checkName returns an error for a name that a database would not store unchanged. The next owner would then look for another
// name.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name of a phase is empty. Try: a name such as charge")
	case len(name) > maxName:
		return fmt.Errorf("the name of a phase has %d bytes, and at most %d are allowed. Try: the key of a row in the name, not the row", len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q of a phase is not valid UTF-8. Try: hexadecimal digits for binary data", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the name %q of a phase has control characters. Try: a name without line breaks and tabs", name)
	}
	return nil
}

// record returns the record of the operation with these phases.
func (r *Run) record(state store.State, s saved) store.Record {
	return store.Record{State: state, Nonce: r.own.Nonce, Data: s.encode(), RecoveryPoint: s.last(), CallStarted: s.Call != nil}
}

// running returns the change that saves phases.
func (r *Run) running(s saved) store.Change {
	return store.Change{ID: r.id, Next: r.record(store.StateRunning, s), Lease: r.s.cfg.TTL}
}

// swap makes a change in a transaction of its own, as the owner. If nothing shows whether the change was applied, the run
// writes nothing more.
func (r *Run) swap(ctx context.Context, c store.Change) error {
	err := r.own.Swap(ctx, c)
	if store.KindOf(err) == store.KindLost {
		r.lost = err
	}
	return err //nolint:wrapcheck // it is of the store
}
