package once_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// An operation that its own handler joins would take its own key, each time anew.
func TestJoinOfTheSameOperation(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{})
	op := once.Operation{Scope: "s", Key: "k"}
	runs := 0
	_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx tx) (string, error) {
		runs++
		r, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: "between"}, func(ctx context.Context, tx *memstore.Tx) (string, error) {
			r, err := once.Join(ctx, e, tx, op, charge("k"))
			if once.CodeOf(err) != once.CodeMisuse || once.EffectOf(err) != once.EffectNotApplied {
				t.Error("the inner one:", err)
			}
			return r.Value, err
		})
		return r.Value, err
	})
	if runs != 1 || once.CodeOf(err) != once.CodeFailed {
		t.Errorf("%d runs: %v", runs, err)
	}
	wantEffects(t, s, "k", 0)
}

// What a handler joins is in flight elsewhere: all of it is tried again, and is then in
// flight, and no failure.
func TestAJoinInFlightIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		e := once.New(s, once.Config{})
		inner := once.Operation{Scope: "s", Key: "inner"}
		other := s.BeginTx()
		_, err := once.Join(t.Context(), e, other, inner, charge("inner"))
		must(t, err)
		runs := 0
		handler := func(ctx context.Context, tx tx) (string, error) {
			runs++
			if runs == 5 { // of the second call
				must(t, other.Commit())
			}
			r, err := once.Join(ctx, e, tx, inner, charge("inner"))
			return r.Value, err
		}
		outer := once.Operation{Scope: "s", Key: "outer", Wait: time.Minute}
		_, err = once.Do(t.Context(), e, outer, handler)
		var own *once.Error
		if !errors.As(err, &own) || own.Code != once.CodeInFlight || own.Effect != once.EffectNotApplied || own.After == 0 || own.Key != "outer" || runs != once.DefaultRuns {
			t.Errorf("%d runs: %v", runs, err)
		}
		if r, err := once.Do(t.Context(), e, outer, handler); err != nil || r.Replayed || runs != 5 {
			t.Errorf("%d runs: %+v, %v", runs, r, err)
		}
		wantEffects(t, s, "inner", 1)
	})
}

// What a handler has started may outlive it, and then is on its own.
func TestTheContextOutlivesItsHandler(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	kept := map[string]context.Context{}
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "do"}, func(ctx context.Context, tx tx) (string, error) {
		kept["later"] = context.WithoutCancel(ctx) //nolint:fatcontext // kept for afterwards
		r, err := once.Join(ctx, e, tx, once.Operation{Scope: "s", Key: "join"}, func(ctx context.Context, tx *memstore.Tx) (string, error) {
			kept["later still"] = context.WithoutCancel(ctx) //nolint:fatcontext // kept for afterwards
			return charge("join")(ctx, tx)
		})
		if _, inside := once.Do(kept["later still"], e, once.Operation{Scope: "s", Key: "inside"}, charge("inside")); once.CodeOf(inside) != once.CodeMisuse {
			t.Error("while the outer handler runs:", inside)
		}
		return r.Value, err
	})
	must(t, err)
	for key, ctx := range kept {
		if r, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: key}, charge(key)); err != nil || r.Replayed {
			t.Errorf("%s: %+v, %v", key, r, err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "panics"}, func(ctx context.Context, _ tx) (string, error) {
			kept["panics"] = ctx //nolint:fatcontext // kept for afterwards
			panic("boom")
		})
	}()
	if _, err := once.Do(kept["panics"], e, once.Operation{Scope: "s", Key: "panics"}, charge("panics")); err != nil {
		t.Error("after a panic:", err)
	}
}

// database/sql's levels have other numbers.
func TestIsolationIsChecked(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	for _, op := range []once.Operation{
		{Scope: "s", Key: "k", Isolation: store.Isolation(sql.LevelSerializable)}, {Isolation: store.Serializable + 1},
	} {
		_, _, err := e.Exec(t.Context(), op, func(context.Context, tx) (once.Answer, error) {
			t.Error("the handler has run")
			return once.Answer{}, nil
		})
		if once.CodeOf(err) != once.CodeInvalid || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "Try: store.ReadCommitted") {
			t.Error(err)
		}
	}
}

// A nil *Failure that is returned as an error is neither success nor failure.
func TestANilFailure(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, tx tx) (v string, err error) {
		var f *once.Failure
		v, err = charge("k")(ctx, tx)
		must(t, err)
		return v, f
	})
	if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(err.Error(), "nil *once.Failure") {
		t.Error(err)
	}
	wantEffects(t, s, "k", 0)
}
