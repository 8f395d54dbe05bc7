package lease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/internal/audit"
	"github.com/oncelib/once/store"
)

// Run is one run of a handler under a lease: the handler passes it to [Tx] and [Call], and can do nothing else with it than ask
// which operation it is. How the run ends is the engine's. Phases come one after the other, not concurrently.
type Run struct {
	s    *Store
	id   store.ID
	opts store.BeginOptions

	phase sync.Mutex // locked while one is under way
	saved saved      // of the phases that have ended
	given []string   // names of phases whose values the handler has got
	lost  error      // a write may be applied later; nothing more is written

	unreached []string // names of phases that earlier runs have ended, and this one has not come to

	mu      sync.Mutex
	nonce   []byte
	fence   int64 // 0: nothing is claimed yet
	writing int   // the fence may be raised at any moment
	locked  bool  // the transaction of a phase has written the record, and has not ended
	since   time.Time
	renewed time.Time // when the last write or renewal that has succeeded was sent
	closed  bool      // Commit or Rollback has been called
	taken   bool      // another owner is there

	ended context.Context //nolint:containedctx // when the lease is lost
	end   context.CancelFunc
}

func newRun(s *Store, opts store.BeginOptions) *Run {
	r := &Run{s: s, id: opts.ID, opts: opts, nonce: newNonce(), saved: saved{Retain: opts.Retain}}
	r.ended, r.end = context.WithCancel(context.Background())
	return r
}

// Operation returns the scope and the key of the operation, as they are stored.
func (r *Run) Operation() store.ID { return r.id }

// Errors of phases. A handler that gets one returns it.
var (
	// ErrLost is in the chain of an error if another owner has the operation, or may have it.
	ErrLost = errors.New("the lease of this operation is lost")

	// ErrUnknown is in the chain of an error if a call may have taken effect, and nothing tells whether it has; or a phase whose
	// transaction was ended in it, as by a procedure that commits.
	ErrUnknown = errors.New("the outcome is not known")

	// ErrMisused is in the chain of an error if the handler cannot be right.
	ErrMisused = errors.New("phases are misused")
)

// enter begins a phase. leave ends it.
func (r *Run) enter(name string) (leave func(), err error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMisused, err)
	}
	if !r.phase.TryLock() {
		return nil, fmt.Errorf("%w: phase %q begins before another one has ended. Try: one after the other", ErrMisused, name)
	}
	switch {
	case r.ended.Err() != nil && !r.isClosed():
		err = fmt.Errorf("phase %q: %w", name, ErrLost)
	case r.isClosed():
		err = fmt.Errorf("%w: phase %q begins after the handler has returned", ErrMisused, name)
	case slices.Contains(r.given, name): // it would get the same value again, and nothing would run
		err = fmt.Errorf("%w: there are two phases %q in one run of the handler. Try: a name of its own for each, such as that of the row that it is about", ErrMisused, name)
	case r.lost != nil:
		err = fmt.Errorf("phase %q: an earlier write may still be applied: %w", name, r.lost)
	case r.saved.Call != nil && r.saved.Call.Phase != name && !r.saved.has(name):
		err = fmt.Errorf("phase %q cannot begin: %q was begun: %w", name, r.saved.Call.Phase, ErrUnknown)
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

// tellUnreached warns, once, of a program that has other names for phases: under another name a phase is executed again.
func (r *Run) tellUnreached(ctx context.Context, call string) {
	if len(r.unreached) == 0 {
		return
	}
	log := cmp.Or(r.s.cfg.Log, slog.Default())
	log.WarnContext(ctx, "phases of an operation have ended and the program has not come to them. If they have other names in it, they are executed again. Try: the names of before",
		"scope", r.id.Scope, "idempotency_key", audit.KeyHashes(r.id.Key)[0], "phases", r.unreached, "call", call)
	r.unreached = nil
}

// maxName is the length of the longest name of a phase that each database can store, in bytes.
const maxName = 255

// checkName refuses a name that would not be stored as it is: the next owner would look for another one.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a phase needs a name")
	case len(name) > maxName:
		return fmt.Errorf("the name of a phase has %d bytes, at most %d can be stored. Try: the key of the row that it is about, not the row", len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q of a phase is not UTF-8. Try: hexadecimal for bytes", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the name %q of a phase has control characters. Try: a name of one line", name)
	}
	return nil
}

func (r *Run) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// record is that of the operation with these phases.
func (r *Run) record(state store.State, s saved) store.Record {
	return store.Record{State: state, Nonce: r.nonce, Data: s.encode(), RecoveryPoint: s.last(), CallStarted: s.Call != nil}
}

// running is the change that saves phases.
func (r *Run) running(s saved) store.Change {
	return store.Change{ID: r.id, Next: r.record(store.StateRunning, s), Lease: r.s.cfg.TTL}
}

// under completes a change so that only the owner can make it, and makes it the next one's condition.
func (r *Run) under(c store.Change) store.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Expect.Fence > 0 { // a takeover
		return c
	}
	if r.fence == 0 {
		c.Next.Fence = 1
		c.Next.Fingerprint, c.Next.Request, c.Next.Trace, c.Next.Name = r.opts.Fingerprint, r.opts.Request, r.opts.Trace, r.opts.Name
		c.StaleAfter = r.opts.StaleAfter
		return c
	}
	c.Expect, c.Keep = store.Expect{Fence: r.fence, Nonce: r.nonce}, true
	if c.Next.State != store.StateAbsent {
		c.Next.Fence = r.fence + 1
	}
	return c
}

const (
	settleTime = 5 * time.Second // bounds finding out what became of a write whose answer was lost
	firstDelay = 5 * time.Millisecond
	maxDelay   = 200 * time.Millisecond
)

// swap makes a change in a transaction of its own. A lost answer is found out.
func (r *Run) swap(ctx context.Context, c store.Change) error {
	c = r.under(c)
	defer r.write(time.Now())()
	try := func(ctx context.Context) (again bool, err error) { // the handler's context has no deadline
		ctx, cancel := context.WithTimeout(ctx, r.opts.Timeouts.Acquire+settleTime)
		defer cancel()
		rec, err := r.s.ops.Swap(ctx, c)
		switch kind := store.KindOf(err); {
		case err == nil, kind == store.KindTaken && isOwn(rec, c):
			r.adopt(c.Next)
			return false, nil
		default:
			return kind != store.KindTaken, err
		}
	}
	again, err := try(ctx)
	for delay := firstDelay; again && store.KindOf(err) == store.KindRetry && sleep(ctx, rand.N(delay)); delay *= 2 {
		again, err = try(ctx)
	}
	if !again || store.KindOf(err) != store.KindLost {
		return err
	}
	lost := err
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	for delay := firstDelay; again && sleep(settling, rand.N(delay)); delay = min(2*delay, maxDelay) {
		again, err = try(settling)
	}
	if again {
		r.lost = lost
		return lost
	}
	return err
}

// isOwn reports whether the record that is in the way of c is the one that c writes: every write of an owner raises
// the fence, under a nonce of its own.
func isOwn(rec store.Record, c store.Change) bool {
	if c.Next.State == store.StateAbsent {
		return rec.State == store.StateAbsent
	}
	return rec.State != store.StateAbsent && rec.Fence == c.Next.Fence && bytes.Equal(rec.Nonce, c.Next.Nonce)
}

// write says that a write is under way, until done is called.
func (r *Run) write(sent time.Time) (done func()) {
	r.mu.Lock()
	before := r.fence
	r.writing++
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writing--
		if r.fence != before {
			r.renewed = sent
		}
	}
}

// lock says whether the transaction of a phase has written the record, so that nothing else can write it until that is over.
func (r *Run) lock(locked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locked = locked
}

// adopt notes what a write has stored. A run that is closed is not renewed, also if a phase has ended after it.
func (r *Run) adopt(next store.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.fence == 0
	r.fence = next.Fence
	if !first {
		return
	}
	r.since = time.Now()
	r.renewed = r.since
	if next.State == store.StateRunning && !r.closed {
		r.s.heart.add(r)
	}
}

// lose ends the handler's context: another owner has the operation (taken), or may have it.
func (r *Run) lose(taken bool) {
	r.mu.Lock()
	r.taken = r.taken || taken
	r.mu.Unlock()
	r.s.heart.remove(r)
	r.end()
}

// close ends the run: no phase begins any more, and no renewal. It reports how far the lease is lost.
func (r *Run) close() (lost, taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.s.heart.remove(r)
	lost = r.ended.Err() != nil
	r.end()
	return lost, r.taken
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
