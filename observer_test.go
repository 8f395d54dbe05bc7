package once_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

const secret = "card 4111-1111" // a key that must not leak

var caller = once.Attempt{RequestID: "req-1", CorrelationID: "cor-1", Number: 2}

type handler = func(context.Context, tx) (string, error)

// seen runs one operation against a store and returns what the observer has seen.
// The handler may panic.
func seen(t *testing.T, s store.Store[tx], cfg once.Config, op once.Operation, h handler) *recorder {
	t.Helper()
	r := new(recorder)
	cfg.Observer = r
	e := once.New(s, cfg)
	if op.Scope == "" {
		op.Scope = "s"
	}
	if op.Key == "" {
		op.Key = secret
	}
	op.Attempt = caller
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = recover() }()
		_, _ = once.Do(t.Context(), e, op, h)
	})
	wg.Wait()
	return r
}

func faulty(points ...storetest.Point) func() store.Store[tx] {
	return func() store.Store[tx] {
		f := storetest.NewFaults(memstore.New())
		f.Arm(storetest.Plan{At: points})
		return f
	}
}

// with returns a store that has a record already.
func with(rec store.Record) func() store.Store[tx] {
	return func() store.Store[tx] {
		s := memstore.New()
		rec.Nonce = make([]byte, 16)
		_, err := s.Swap(context.Background(), store.Change{ID: store.ID{Scope: "s", Key: secret}, Next: rec, Lease: time.Minute, Retain: time.Hour})
		if err != nil {
			panic(err)
		}
		s.Advance(10 * time.Minute)
		return s
	}
}

func TestObserverSeesEveryDecision(t *testing.T) {
	empty := func() store.Store[tx] { return memstore.New() }
	pay := charge("k")
	fail := func(err error) handler { return func(context.Context, tx) (string, error) { return "", err } }
	swallow := func(_ context.Context, t tx) (string, error) {
		_, _ = t.Insert("k", ""), t.Insert("k", "")
		return "", nil
	}
	mine := once.FingerprintOf([]byte("a"))
	value := store.Result{Body: []byte(`"v"`)}
	refused := store.Result{Status: 422, Body: []byte(`"no"`), RolledBack: true}
	for _, tt := range []struct {
		name  string
		store func() store.Store[tx]
		op    once.Operation
		h     handler
		want  []string
	}{
		{"executed", empty, once.Operation{}, pay, []string{"claimed", "finished executed, applied"}},
		{"effect outside", empty, once.Operation{}, fail(nil), []string{"claimed", "effect_outside_tx", "finished executed, applied"}},
		{"declined", empty, once.Operation{}, fail(&once.Failure{Code: "declined"}), []string{"claimed", "finished declined, not applied"}},
		{"declined, kept", empty, once.Operation{}, fail(&once.Failure{Code: "declined", CommitWrites: true}), []string{"claimed", "finished declined, applied"}},
		{"failed", empty, once.Operation{}, fail(errors.New("x")), []string{"claimed", "finished failed, not applied"}},
		{"handler asks for a rerun", empty, once.Operation{}, fail(&store.Error{Kind: store.KindRetry, Err: errors.New("deadlock")}),
			[]string{"claimed", "rerun", "claimed", "rerun", "claimed", "finished conflict, not applied"}},
		{"panic", empty, once.Operation{}, func(context.Context, tx) (string, error) { panic("x") }, []string{"claimed", "finished failed, not applied"}},
		{"Goexit", empty, once.Operation{}, func(context.Context, tx) (string, error) { runtime.Goexit(); return "", nil }, []string{"claimed", "finished failed, not applied"}},
		{"swallowed", empty, once.Operation{}, swallow, []string{"claimed", "finished aborted, not applied"}},
		{"ended", empty, once.Operation{}, func(_ context.Context, t tx) (string, error) { return "", t.Commit() }, []string{"claimed", "effect_outside_tx", "finished misuse, in doubt"}},
		{"ended, then failed", empty, once.Operation{}, func(_ context.Context, t tx) (string, error) { return "", errors.Join(t.Commit(), errors.New("x")) }, []string{"claimed", "finished misuse, in doubt"}},
		{"ended, then declined", empty, once.Operation{}, func(_ context.Context, t tx) (string, error) {
			return "", errors.Join(t.Commit(), &once.Failure{Code: "x"})
		}, []string{"claimed", "finished misuse, in doubt"}},
		{"ended, then panic", empty, once.Operation{}, func(_ context.Context, t tx) (string, error) { _ = t.Commit(); panic("x") }, []string{"claimed", "finished misuse, in doubt"}},
		{"invalid", empty, once.Operation{Key: "\x00"}, pay, []string{"finished invalid, not applied"}},
		{"replayed", with(store.Record{State: store.StateDone, Result: value}), once.Operation{}, pay, []string{"finished replayed, applied"}},
		{"replayed failure", with(store.Record{State: store.StateDone, Result: store.Result{Kind: store.ResultFailure, Body: []byte(`{"code":"x"}`)}}), once.Operation{}, pay, []string{"finished replayed, applied"}},
		{"replayed, rolled back", with(store.Record{State: store.StateDone, Result: refused}), once.Operation{}, pay, []string{"finished replayed, not applied"}},
		{"no result, rolled back", with(store.Record{State: store.StateDone, Result: store.Result{Kind: store.ResultOmitted, RolledBack: true}}), once.Operation{}, pay, []string{"finished result_unavailable, not applied"}},
		{"fingerprint of another version", with(store.Record{State: store.StateDone, Result: value, Fingerprint: make([]byte, 33)}), once.Operation{Fingerprint: mine}, pay, []string{"finished replayed, applied"}},
		{"mismatch", with(store.Record{State: store.StateDone, Result: value, Fingerprint: append([]byte{mine[0]}, make([]byte, 32)...)}), once.Operation{Fingerprint: mine}, pay, []string{"finished mismatch, not applied"}},
		{"unknown", with(store.Record{State: store.StateUnknown, Fence: 1}), once.Operation{}, pay, []string{"finished unknown, in doubt"}},
		{"lapsed while calling", with(store.Record{State: store.StateRunning, Fence: 1, CallStarted: true}), once.Operation{}, pay, []string{"finished unknown, in doubt"}},
		{"in flight", with(store.Record{State: store.StateRunning, Fence: 1}), once.Operation{}, pay, []string{"finished in_flight, not applied"}},
		{"no result", with(store.Record{State: store.StateDone, Result: store.Result{Kind: store.ResultOmitted}}), once.Operation{}, pay, []string{"finished result_unavailable, applied"}},
		{"result of a newer version", with(store.Record{State: store.StateDone, Result: store.Result{Kind: 77}}), once.Operation{}, pay, []string{"finished result_unavailable, applied"}},
		{"result of another type", with(store.Record{State: store.StateDone, Result: store.Result{Body: []byte("{}")}}), once.Operation{}, pay, []string{"finished result_unavailable, applied"}},
		{"store down", faulty(storetest.BeginDown), once.Operation{}, pay, []string{"finished unavailable, not applied"}},
		{"begin conflicts", faulty(storetest.BeginRetry), once.Operation{}, pay, []string{"rerun", "claimed", "finished executed, applied"}},
		{"commit not reached", faulty(storetest.CommitDown), once.Operation{}, pay, []string{"claimed", "finished unavailable, not applied"}},
		{"commit conflicts", faulty(storetest.CommitRetry), once.Operation{}, pay, []string{"claimed", "rerun", "claimed", "finished executed, applied"}},
		{"commit collides", faulty(storetest.CommitTaken), once.Operation{}, pay, []string{"claimed", "claimed", "finished executed, applied"}},
		{"lost, applied", faulty(storetest.CommitLostApplied), once.Operation{}, pay, []string{"claimed", "in_doubt", "settled applied", "finished executed, applied"}},
		{"lost, not applied", faulty(storetest.CommitLostUndone), once.Operation{}, pay, []string{"claimed", "in_doubt", "settled not applied", "rerun", "claimed", "finished executed, applied"}},
		{"somebody else's", lostToARival, once.Operation{}, pay, []string{"claimed", "in_doubt", "settled not applied", "finished replayed, applied"}},
		{"answer of a failure lost", faulty(storetest.SwapLostApplied), once.Operation{}, fail(&once.Failure{Code: "declined"}), []string{"claimed", "in_doubt", "settled applied", "finished declined, not applied"}},
		{"failure not reached", faulty(storetest.SwapDown), once.Operation{}, fail(&once.Failure{Code: "declined"}), []string{"claimed", "finished unavailable, not applied"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, e := range wantEvents(t, seen(t, tt.store(), once.Config{}, tt.op, tt.h), tt.want...) {
				key := secret
				if tt.op.Key != "" {
					key = tt.op.Key
				}
				if e.Scope != "s" || e.KeyHash != once.KeyHash(key) || e.Attempt != caller {
					t.Errorf("%s: scope %q, key hash %q, caller %+v", e.Type, e.Scope, e.KeyHash, e.Attempt)
				}
				if e.Err != nil && strings.Contains(e.Err.Error(), key) {
					t.Errorf("%s names the key: %v", e.Type, e.Err)
				}
			}
		})
	}
}

// lostToARival loses a commit, and before it can be settled another caller has
// executed the operation.
func lostToARival() store.Store[tx] {
	s := memstore.New()
	return &spy{Store: s, commit: func(ctx context.Context, txn store.Transaction[tx], c store.Change) error {
		if err := txn.Rollback(ctx); err != nil {
			return err
		}
		c.Next.Nonce = []byte("somebody else's!")
		if _, err := s.Swap(ctx, c); err != nil {
			return err
		}
		return errLost
	}}
}

func TestObserverSeesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		go func() {
			_, _ = once.Do(t.Context(), once.New(s, once.Config{}), once.Operation{Scope: "s", Key: secret}, slowly(time.Minute, "k"))
		}()
		synctest.Wait()
		r := seen(t, s, once.Config{}, once.Operation{Wait: 20 * time.Second}, charge("k"))
		events := wantEvents(t, r, "waiting", "finished in_flight, not applied")
		if w := events[1].Waited; w != 20*time.Second {
			t.Errorf("waited %v", w)
		}
		r = seen(t, s, once.Config{}, once.Operation{Wait: time.Hour}, charge("k"))
		events = wantEvents(t, r, "waiting", "finished replayed, applied")
		if w := events[1].Waited; w < 40*time.Second || w > 41*time.Second || w != events[1].Total {
			t.Errorf("waited %v of %v", w, events[1].Total)
		}
	})
}

func TestObserverSeesWhereTimeGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		slow := &spy{
			Store: s,
			begin: func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
				pass(6 * time.Second)
				ask.Waits.Acquire += 1 * time.Second
				ask.Waits.Lock += 2 * time.Second
				return s.Begin(ctx, ask)
			},
			commit: func(ctx context.Context, txn store.Transaction[tx], c store.Change) error {
				pass(3 * time.Second)
				return txn.Commit(ctx, c)
			},
		}
		e := seen(t, slow, once.Config{}, once.Operation{}, slowly(2*time.Second, "k")).last(t)
		if e.Acquire != 1*time.Second || e.LockWait != 2*time.Second || e.LookUp != 3*time.Second || e.Handler != 2*time.Second || e.Commit != 3*time.Second || e.Total != 11*time.Second || e.Runs != 1 {
			t.Errorf("%+v", e)
		}
	})
}

// A join has no second run: whatever went wrong, the caller's transaction is to
// start again.
func TestObserverSeesJoins(t *testing.T) {
	for name, tt := range map[string]struct {
		point storetest.Point
		want  []string
	}{
		"joined":    {"", []string{"claimed", "finished executed, applied"}},
		"not down":  {storetest.JoinDown, []string{"finished unavailable, not applied"}},
		"collides":  {storetest.CommitTaken, []string{"claimed", "finished conflict, not applied"}},
		"conflicts": {storetest.CommitRetry, []string{"claimed", "finished conflict, not applied"}},
	} {
		s, r := memstore.New(), new(recorder)
		f := storetest.NewFaults(s)
		f.Arm(storetest.Plan{At: []storetest.Point{tt.point}})
		_, _ = once.Join(t.Context(), once.New(f, once.Config{Observer: r}), s.BeginTx(), once.Operation{Scope: "s", Key: "k"}, charge("k"))
		t.Run(name, func(t *testing.T) { wantEvents(t, r, tt.want...) })
	}
}
