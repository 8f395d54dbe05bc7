package once_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// leasing is a store whose handlers work in several transactions and call other services,
// under a lease: the least of one, to test what the engine assumes of a store.
type leasing struct {
	store.Operations // of faults or of mem

	mem    *memstore.Store
	begins []store.BeginOptions
	lost   bool // answers to the last commit get lost
}

const leaseTime = time.Minute

func newLeasing() *leasing {
	mem := memstore.New()
	return &leasing{Operations: mem, mem: mem}
}

func (s *leasing) Irrevocable() {}

func (s *leasing) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*leasedRun], store.Record, error) {
	s.begins = append(s.begins, opts)
	if opts.ID.IsZero() {
		return nil, store.Record{}, &store.Error{Kind: store.KindMisused, Err: errors.New("a lease needs a key")}
	}
	rec, err := s.Read(ctx, opts.ID)
	if err != nil {
		return nil, rec, err
	}
	next := store.Record{State: store.StateRunning, Fence: 1, Fingerprint: opts.Fingerprint, Request: opts.Request, Trace: opts.Trace, Nonce: make([]byte, 16)}
	rand.Read(next.Nonce)
	expect := store.Expect{}
	switch {
	case rec.State == store.StateAbsent:
	case rec.State == store.StateRunning && rec.LeaseExpired && bytes.Equal(rec.Fingerprint, opts.Fingerprint):
		expect = store.Expect{Fence: rec.Fence, Nonce: rec.Nonce, LeaseExpired: true}
		next.Fence, next.RecoveryPoint = rec.Fence+1, rec.RecoveryPoint
		if rec.CallStarted {
			next.State = store.StateUnknown
		}
	default:
		return nil, rec, nil
	}
	standing, err := s.Swap(ctx, store.Change{ID: opts.ID, Expect: expect, Next: next, Lease: leaseTime})
	switch {
	case store.KindOf(err) == store.KindTaken:
		return nil, standing, nil
	case err != nil:
		return nil, store.Record{}, err
	case next.State == store.StateUnknown:
		return nil, next, nil
	}
	r := &leasedRun{s: s, id: opts.ID, rec: next}
	r.ended, r.end = context.WithCancel(context.Background())
	return r, store.Record{}, nil
}

// leasedRun is a claim and what a handler gets.
type leasedRun struct {
	s     *leasing
	id    store.ID
	rec   store.Record
	doubt bool            // a write is lost, and may be applied later
	ended context.Context //nolint:containedctx // when the lease is lost
	end   context.CancelFunc
}

func (r *leasedRun) Tx() *leasedRun { return r }

func (r *leasedRun) Ended() <-chan struct{} { return r.ended.Done() }

func (r *leasedRun) OnEnd(f func()) (stop func() bool) { return context.AfterFunc(r.ended, f) }

func (r *leasedRun) write(ctx context.Context, c store.Change) error {
	c.ID, c.Expect = r.id, store.Expect{Fence: r.rec.Fence, Nonce: r.rec.Nonce}
	if c.Next.State != store.StateAbsent {
		c.Next.Fence, c.Next.Nonce = r.rec.Fence+1, r.rec.Nonce
	}
	_, err := r.s.Swap(ctx, c)
	if store.KindOf(err) == store.KindLost { // each write raises the fence, which tells
		if rec, e := r.s.mem.Read(ctx, r.id); e == nil && rec.Fence == c.Next.Fence && bytes.Equal(rec.Nonce, c.Next.Nonce) {
			err = nil
		}
		r.doubt = err != nil
	}
	if err == nil {
		r.rec = c.Next
	}
	return err
}

// step is one transaction: an effect and the recovery point behind it.
func (r *leasedRun) step(ctx context.Context, key string) error {
	next := r.rec
	next.RecoveryPoint, next.CallStarted = key, false
	return r.write(ctx, store.Change{Next: next, Lease: leaseTime, KeepRequest: true, Writes: []store.Statement{{SQL: "insert", Args: []any{key, "1"}}}})
}

// call begins an external call, and does not learn how it ends.
func (r *leasedRun) call(ctx context.Context) error {
	next := r.rec
	next.CallStarted = true
	return r.write(ctx, store.Change{Next: next, Lease: leaseTime, KeepRequest: true})
}

// standing is what stands of a run that does not come to its end.
func (r *leasedRun) standing(cause error) error {
	switch {
	case r.rec.CallStarted:
		return &store.Error{Kind: store.KindUncertain, Err: cause}
	case r.rec.RecoveryPoint != "", r.doubt:
		return &store.Error{Kind: store.KindPartial, Err: cause}
	}
	return nil
}

func (r *leasedRun) Commit(ctx context.Context, c store.Change) error {
	err := r.write(ctx, c)
	if r.s.lost {
		return &store.Error{Kind: store.KindLost, Err: errors.New("no answer")}
	}
	if err != nil && r.standing(err) != nil {
		return r.standing(err)
	}
	return err
}

func (r *leasedRun) Rollback(ctx context.Context) error {
	next := store.Record{}
	if r.rec.CallStarted {
		next = r.rec
		next.State = store.StateUnknown
	}
	if r.rec.RecoveryPoint == "" && !r.doubt || r.rec.CallStarted {
		if err := r.write(ctx, store.Change{Next: next}); err != nil {
			return err
		}
		r.rec.CallStarted = next.CallStarted
	}
	return r.standing(errors.New("the handler has failed"))
}

func leasedEngine(s *leasing, r *recorder) *once.Engine[*leasedRun] {
	return once.New(s, once.Config{Observer: r})
}

var leasedOp = once.Operation{Scope: "s", Key: "k", Fingerprint: once.FingerprintOf([]byte("a"))}

func wantOutcome(t *testing.T, err error, code once.Code, effect once.Effect) {
	t.Helper()
	if once.CodeOf(err) != code || once.EffectOf(err) != effect {
		t.Errorf("%q, %s (%v), want %q, %s", once.CodeOf(err), once.EffectOf(err), err, code, effect)
	}
}

func (s *leasing) state(t *testing.T) store.State {
	t.Helper()
	rec, err := s.mem.Read(t.Context(), store.ID{Scope: "s", Key: "k"})
	must(t, err)
	return rec.State
}

// What stands after a handler that has failed decides what the caller is told, and whether
// the handler runs again: the engine does not assume that all of it was undone.
func TestLeasedHandlerFails(t *testing.T) {
	transient := &store.Error{Kind: store.KindRetry, Err: errors.New("serialization")}
	step := func(ctx context.Context, r *leasedRun) error { return r.step(ctx, "step") }
	call := func(ctx context.Context, r *leasedRun) error { return r.call(ctx) }
	for _, tt := range []struct {
		name   string
		do     []func(context.Context, *leasedRun) error
		fail   error
		code   once.Code
		effect once.Effect
		runs   int
		state  store.State
	}{
		{"before anything", nil, errors.New("no"), once.CodeFailed, once.EffectNotApplied, 1, store.StateAbsent},
		{"before anything, transient", nil, transient, once.CodeConflict, once.EffectNotApplied, once.DefaultRuns, store.StateAbsent},
		{"after a step", []func(context.Context, *leasedRun) error{step}, errors.New("no"), once.CodeFailed, once.EffectInDoubt, 1, store.StateRunning},
		{"after a step, transient", []func(context.Context, *leasedRun) error{step}, transient, once.CodeFailed, once.EffectInDoubt, 1, store.StateRunning},
		{"in a call", []func(context.Context, *leasedRun) error{call}, errors.New("no"), once.CodeUnknown, once.EffectInDoubt, 1, store.StateUnknown},
		{"in a call after a step", []func(context.Context, *leasedRun) error{step, call}, transient, once.CodeUnknown, once.EffectInDoubt, 1, store.StateUnknown},
	} {
		for _, panics := range []bool{false, true} {
			if panics && tt.runs > 1 {
				continue
			}
			s, r := newLeasing(), new(recorder)
			runs := 0
			err := func() (err error) {
				defer func() { _ = recover() }()
				_, err = once.Do(t.Context(), leasedEngine(s, r), leasedOp, func(ctx context.Context, run *leasedRun) (string, error) {
					runs++
					for _, do := range tt.do {
						must(t, do(ctx, run))
					}
					if panics {
						panic("boom")
					}
					return "", tt.fail
				})
				return err
			}()
			if !panics {
				wantOutcome(t, err, tt.code, tt.effect)
			}
			if e := r.last(t); e.Outcome != once.Outcome(tt.code) || e.Effect != tt.effect {
				t.Errorf("%s, panics %v: the observer is told %s, %s", tt.name, panics, e.Outcome, e.Effect)
			}
			if state := s.state(t); runs != tt.runs || state != tt.state {
				t.Errorf("%s, panics %v: %d runs, then %s, want %d and %s", tt.name, panics, runs, state, tt.runs, tt.state)
			}
		}
	}
}

// A handler that swallows the error of its call is told of no success.
func TestLeasedHandlerSwallowsACall(t *testing.T) {
	s := newLeasing()
	_, err := once.Do(t.Context(), leasedEngine(s, new(recorder)), leasedOp, func(ctx context.Context, r *leasedRun) (string, error) {
		must(t, r.call(ctx))
		r.rec.Fence++ // what takes the lease away
		return "done", nil
	})
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
}

// A final failure is committed under the claim. To roll back and store it afterwards would
// leave the key free in between.
func TestLeasedFailureIsCommitted(t *testing.T) {
	s := newLeasing()
	e := leasedEngine(s, new(recorder))
	runs := 0
	decline := func(ctx context.Context, r *leasedRun) (string, error) {
		runs++
		return "", errors.Join(r.step(ctx, "step"), &once.Failure{Code: "declined"})
	}
	for range 2 {
		_, err := once.Do(t.Context(), e, leasedOp, decline)
		if f := (*once.Failure)(nil); !errors.As(err, &f) || f.Code != "declined" || once.EffectOf(err) != once.EffectApplied {
			t.Errorf("%v, %s", err, once.EffectOf(err))
		}
	}
	if _, stands := s.mem.Get("step"); !stands || runs != 1 || s.state(t) != store.StateDone {
		t.Errorf("%d runs, the step stands: %v, then %s", runs, stands, s.state(t))
	}
}

// The claim of a leased operation can be had again while its commit is on its way: that it is
// free proves nothing, so the engine does not look.
func TestLeasedCommitIsNotSettled(t *testing.T) {
	s := newLeasing()
	s.lost = true
	_, err := once.Do(t.Context(), leasedEngine(s, new(recorder)), leasedOp, func(context.Context, *leasedRun) (string, error) { return "v", nil })
	wantOutcome(t, err, once.CodeUnavailable, once.EffectInDoubt)
	if len(s.begins) != 1 || s.state(t) != store.StateDone {
		t.Errorf("%d times Begin, then %s", len(s.begins), s.state(t))
	}
}

// The store can end the claim while the handler runs: the handler's context says so.
func TestClaimLostEndsTheHandler(t *testing.T) {
	s := newLeasing()
	var cause error
	_, err := once.Do(t.Context(), leasedEngine(s, new(recorder)), leasedOp, func(ctx context.Context, r *leasedRun) (string, error) {
		must(t, r.call(ctx))
		r.end()
		<-ctx.Done()
		cause = context.Cause(ctx)
		return "", ctx.Err()
	})
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	if !errors.Is(cause, once.ErrClaimLost) {
		t.Errorf("the handler's context ended with %v", cause)
	}
}

// What another process learns from the record, a duplicate in the same process learns, too.
func TestLeasedDuplicates(t *testing.T) {
	s := newLeasing()
	e := leasedEngine(s, new(recorder))
	started, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := once.Do(t.Context(), e, leasedOp, func(context.Context, *leasedRun) (string, error) {
			close(started)
			<-end
			return "v", nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-started
	other := leasedOp
	other.Fingerprint = once.FingerprintOf([]byte("b"))
	never := func(context.Context, *leasedRun) (string, error) { t.Error("it runs twice"); return "", nil }
	for name, e := range map[string]*once.Engine[*leasedRun]{"the same process": e, "another": leasedEngine(s, new(recorder))} {
		_, err := once.Do(t.Context(), e, leasedOp, never)
		if once.CodeOf(err) != once.CodeInFlight {
			t.Errorf("in %s: %v", name, err)
		}
		if _, err := once.Do(t.Context(), e, other, never); once.CodeOf(err) != once.CodeMismatch {
			t.Errorf("other bytes, in %s: %v", name, err)
		}
	}
	waits := leasedOp
	waits.Wait = time.Minute
	wg.Go(func() {
		if r, err := once.Do(t.Context(), e, waits, never); err != nil || !r.Replayed || r.Value != "v" {
			t.Errorf("%+v, %v", r, err)
		}
	})
	close(end)
	wg.Wait()
}

// A lease that is over is taken over by the store, not judged by the engine: that a call was
// begun is unknown only where the store says so.
func TestLeasedTakeover(t *testing.T) {
	for _, called := range []bool{false, true} {
		s := newLeasing()
		dead, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}, Fingerprint: leasedOp.Fingerprint[:]})
		must(t, err)
		must(t, dead.Tx().step(t.Context(), "step"))
		if called {
			must(t, dead.Tx().call(t.Context()))
		}
		s.mem.Advance(2 * leaseTime)
		from := ""
		op := leasedOp
		op.Attempt.Number = 2 // which looks before it begins
		_, err = once.Do(t.Context(), leasedEngine(s, new(recorder)), op, func(_ context.Context, r *leasedRun) (string, error) {
			from = r.rec.RecoveryPoint
			return "v", nil
		})
		if called {
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		} else if err != nil || from != "step" {
			t.Errorf("from %q: %v", from, err)
		}
		if err := dead.Commit(t.Context(), store.Change{Next: store.Record{State: store.StateDone}}); err == nil {
			t.Error("the dead one commits")
		}
	}
}

// What is read of an operation is what a caller would be told of it.
func TestReadRecordAgreesWithCallers(t *testing.T) {
	s := newLeasing()
	e := leasedEngine(s, new(recorder))
	want := func(state store.State) store.Record {
		t.Helper()
		rec, err := e.ReadRecord(t.Context(), leasedOp)
		must(t, err)
		if rec.State != state {
			t.Errorf("%s, want %s", rec.State, state)
		}
		return rec
	}
	want(store.StateAbsent)
	dead, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}, Fingerprint: leasedOp.Fingerprint[:]})
	must(t, err)
	must(t, dead.Tx().call(t.Context()))
	want(store.StateRunning)
	s.mem.Advance(2 * leaseTime)
	want(store.StateUnknown) // and that is not stored
	op := leasedOp
	op.Key = "other"
	_, _, err = e.Exec(t.Context(), op, func(context.Context, *leasedRun) (once.Answer, error) {
		return once.Answer{Result: store.Result{Status: 402, Body: []byte("no")}, Rollback: true}, nil
	})
	must(t, err)
	rec, err := e.ReadRecord(t.Context(), op)
	must(t, err)
	if rec.State != store.StateDone || rec.Result.Status != 402 || string(rec.Result.Body) != "no" || len(rec.Result.Header) > 0 {
		t.Errorf("%+v", rec)
	}
	_, err = e.ReadRecord(t.Context(), once.Operation{Scope: "s"})
	wantOutcome(t, err, once.CodeInvalid, once.EffectNotApplied)
}

// First attempts and batches put claims and look-ups off where a store can: a leased one
// cannot, and loses nothing.
func TestLeasedFirstAttemptAndBatch(t *testing.T) {
	s := newLeasing()
	e := leasedEngine(s, new(recorder))
	op := leasedOp
	op.Attempt.Number = 1
	for i := range 2 {
		r, err := once.DoBatch(t.Context(), e, op, func(b *once.Batch) (string, error) {
			b.Exec("insert", "batch", "1")
			return "v", nil
		})
		if err != nil || r.Value != "v" || r.Replayed != (i == 1) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if _, ok := s.mem.Get("batch"); !ok {
		t.Error("the batch has not written")
	}
}

// The claim of a leased store is a record, which has what the engine knows of the operation.
func TestLeasedClaimIsDescribed(t *testing.T) {
	s := newLeasing()
	key := make([]byte, 32)
	box, err := once.NewEncrypter(key)
	must(t, err)
	e := once.New(s, once.Config{Encrypter: box, Observer: once.Discard})
	op := leasedOp
	op.Request, op.Attempt.Trace = []byte("what was asked"), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var running store.Record
	_, err = once.Do(t.Context(), e, op, func(ctx context.Context, r *leasedRun) (string, error) {
		running, err = s.Read(ctx, store.ID{Scope: "s", Key: "k"})
		return "v", err
	})
	must(t, err)
	done, err := s.Read(t.Context(), store.ID{Scope: "s", Key: "k"})
	must(t, err)
	for _, rec := range []store.Record{running, done} {
		plain, err := box.Decrypt(rec.Request, seal.Label("s", "k"))
		if err != nil || !bytes.Equal(plain, op.Request) || !bytes.Equal(rec.Fingerprint, op.Fingerprint[:]) || rec.Trace != op.Attempt.Trace {
			t.Errorf("%s: request %q, %v, fingerprint %x, trace %q", rec.State, plain, err, rec.Fingerprint, rec.Trace)
		}
	}
	if !slices.Equal(running.Request, done.Request) {
		t.Error("the request was encrypted twice")
	}
}

// Work without a key has no record, so no lease.
func TestLeasedWorkNeedsAKey(t *testing.T) {
	_, _, err := leasedEngine(newLeasing(), new(recorder)).Exec(t.Context(), once.Operation{}, func(context.Context, *leasedRun) (once.Answer, error) {
		t.Error("it runs")
		return once.Answer{}, nil
	})
	wantOutcome(t, err, once.CodeMisuse, once.EffectNotApplied)
}

// Each call of the store fails, one after another: what the caller is told is true.
func TestLeasedFaults(t *testing.T) {
	for n := 1; ; n++ {
		s := newLeasing()
		faults := storetest.NewFaults[tx](s.mem)
		s.Operations = faults
		faults.Arm(storetest.Plan{Nth: []int{n}})
		_, err := once.Do(t.Context(), leasedEngine(s, new(recorder)), leasedOp, func(ctx context.Context, r *leasedRun) (string, error) {
			return "v", r.step(ctx, "step")
		})
		hits := faults.Heal()
		if len(hits) == 0 {
			if err != nil || n < 10 {
				t.Errorf("after %d points: %v", n-1, err)
			}
			return
		}
		_, stands := s.mem.Get("step")
		switch effect := once.EffectOf(err); {
		case err == nil && !stands, effect == once.EffectApplied && !stands, effect == once.EffectNotApplied && stands:
			t.Errorf("%q: %v (%s), but the step stands: %v", hits, err, effect, stands)
		}
	}
}

// TestSharedIsNotForLeases: a phase of leased work is done when no commit was answered.
func TestSharedIsNotForLeases(t *testing.T) {
	defer func() {
		if r := recover(); r == nil {
			t.Error("an engine of leases has a shared cache")
		}
	}()
	once.New[*leasedRun](newLeasing(), once.Config{Shared: newMemory()})
}
