package once_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// A store that always answers "serialization failure" ends the call.
func TestRunsAreBounded(t *testing.T) {
	runs := 0
	s := memstore.New()
	e := once.New(&spy{Store: s, commit: func(ctx context.Context, txn store.Transaction[tx], _ store.Change) error {
		return errors.Join(txn.Rollback(ctx), &store.Error{Kind: store.KindRetry, Err: errors.New("40001")})
	}}, once.Config{Runs: 5})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, t tx) (string, error) {
		runs++
		return charge("k")(ctx, t)
	})
	if once.CodeOf(err) != once.CodeConflict || once.EffectOf(err) != once.EffectNotApplied || runs != 5 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	asked := 0
	e := once.New(&spy{Store: memstore.New(), begin: func(context.Context, store.BeginOptions) (store.Transaction[tx], store.Record, error) {
		asked++
		return nil, store.Record{}, &store.Error{Kind: store.KindRetry, Err: errors.New("40001")}
	}}, once.Config{})
	for _, op := range []once.Operation{{Scope: "s", Key: "k"}, {}} {
		asked = 0
		_, _, err := e.Exec(t.Context(), op, func(context.Context, tx) (once.Answer, error) { return once.Answer{}, nil })
		if once.CodeOf(err) != once.CodeConflict || once.EffectOf(err) != once.EffectNotApplied || asked != once.DefaultRuns {
			t.Errorf("asked %d times: %v", asked, err)
		}
	}
}

// What the operation and the engine say about a transaction reaches the store. Only
// the first transaction of a call can be the first of its operation.
func TestBeginOptionsReachTheStore(t *testing.T) {
	var asks []store.BeginOptions
	s := memstore.New()
	f := storetest.NewFaults(s)
	f.Arm(storetest.Plan{At: []storetest.Point{storetest.CommitRetry}})
	e := once.New(&spy{Store: f, begin: func(ctx context.Context, ask store.BeginOptions) (store.Transaction[tx], store.Record, error) {
		asks = append(asks, ask)
		return f.Begin(ctx, ask)
	}}, once.Config{Synced: true, Timeouts: store.Timeouts{Acquire: time.Second, Lock: time.Hour}})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k", Isolation: store.Serializable, Attempt: once.Attempt{Number: 1}, Timeouts: store.Timeouts{Lock: time.Minute}}, charge("k"))
	must(t, err)
	want := store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}, Isolation: store.Serializable, Durable: true, First: true, Timeouts: store.Timeouts{Acquire: time.Second, Lock: time.Minute}}
	again := want
	again.First = false
	if !reflect.DeepEqual(asks, []store.BeginOptions{want, again}) {
		t.Errorf("asked %+v", asks)
	}
}

// A store that always finds the record of another call, and never shows it, ends it too.
func TestCollisionsAreBounded(t *testing.T) {
	e := once.New(&spy{Store: memstore.New(), commit: func(ctx context.Context, txn store.Transaction[tx], _ store.Change) error {
		return errors.Join(txn.Rollback(ctx), &store.Error{Kind: store.KindTaken, Err: errors.New("23505")})
	}}, once.Config{})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
	if once.CodeOf(err) != once.CodeConflict || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
}
