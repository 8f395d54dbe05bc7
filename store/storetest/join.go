package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// caller is a transaction of the caller, with one effect that belongs to no operation.
type caller[TX any] struct {
	tx  TX
	key string
	end func(commit bool) error
}

func (u *suite[TX]) own(t *testing.T) caller[TX] {
	t.Helper()
	tx, end := u.Own(t, u.s)
	c := caller[TX]{tx, newID().Key, end}
	if err := u.Write(bounded(t), tx, c.key); err != nil {
		t.Fatal("Write:", err)
	}
	return c
}

// testJoin proves that an operation in a caller's transaction is committed or rolled back
// with it, and that its failure leaves the transaction usable.
func testJoin[TX any](t *testing.T, u *suite[TX]) {
	e := u.engine(u.s, once.Config{})
	if !u.joins {
		var none TX
		_, err := once.Join(bounded(t), e, none, operation(newID()), func(context.Context, TX) (string, error) { return "", nil })
		if once.CodeOf(err) != once.CodeInvalid || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("Join on a store without store.Joiner has returned %v", err)
		}
		return
	}
	join := func(t *testing.T, c caller[TX], id store.ID, fn func(context.Context, TX) (string, error)) (once.Result[string], error) {
		return once.Join(bounded(t), e, c.tx, operation(id), func(ctx context.Context, tx TX) (string, error) {
			if err := u.Write(ctx, tx, id.Key); err != nil {
				return "", err
			}
			return fn(ctx, tx)
		})
	}
	succeed := func(context.Context, TX) (string, error) { return "value", nil }
	// ends ends the caller's transaction and checks the state and the effects afterwards.
	ends := func(t *testing.T, c caller[TX], commit bool, id store.ID, state store.State, effects int) {
		t.Helper()
		u.wantEffects(t, c.key, 0)
		if err := c.end(commit); err != nil {
			t.Error("the commit or rollback of the caller's transaction has failed:", err)
		}
		own := 0
		if commit {
			own = 1
		}
		u.wantEffects(t, c.key, own)
		u.wantState(t, id, state)
		u.wantEffects(t, id.Key, effects)
	}
	t.Run("Commit", func(t *testing.T) {
		c, id := u.own(t), newID()
		r, err := join(t, c, id, succeed)
		if err != nil || r.Replayed || r.Value != "value" {
			t.Errorf("%+v, %v", r, err)
		}
		u.busy(t, u.peer, id)
		if err := u.Write(bounded(t), c.tx, c.key+"later"); err != nil {
			t.Error(err)
		}
		ends(t, c, true, id, store.StateDone, 1)
		u.wantEffects(t, c.key+"later", 1)
		c = u.own(t)
		if r, err = join(t, c, id, succeed); err != nil || !r.Replayed || r.Value != "value" || r.Since.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		ends(t, c, true, id, store.StateDone, 1)
	})
	t.Run("Rollback", func(t *testing.T) {
		c, id := u.own(t), newID()
		if _, err := join(t, c, id, succeed); err != nil {
			t.Error(err)
		}
		ends(t, c, false, id, store.StateAbsent, 0)
		u.execute(t, done(id, "r"))
	})
	t.Run("Two", func(t *testing.T) { // two operations in one transaction, and the first one again
		c, a, b := u.own(t), newID(), newID()
		for i, id := range []store.ID{a, b, a} {
			if r, err := join(t, c, id, succeed); err != nil || r.Replayed != (i == 2) || r.Value != "value" {
				t.Errorf("%d: %+v, %v", i, r, err)
			}
		}
		ends(t, c, true, a, store.StateDone, 1)
		u.wantState(t, b, store.StateDone)
		u.wantEffects(t, b.Key, 1)
	})
	t.Run("InFlight", func(t *testing.T) {
		if u.OneWriter || u.ClaimsByCommit {
			return // the caller's transaction would wait for the holder's, or would be granted
		}
		c, id := u.own(t), newID()
		txn := u.begin(t, id)
		if _, err := join(t, c, id, succeed); once.CodeOf(err) != once.CodeInFlight {
			t.Errorf("%v, want %s", err, once.CodeInFlight)
		}
		ends(t, c, true, id, store.StateAbsent, 0)
		if err := txn.Rollback(bounded(t)); err != nil {
			t.Error(err)
		}
	})
	declined := &once.Failure{Code: "declined", Message: "no"}
	kept := &once.Failure{Code: "declined", CommitWrites: true}
	for _, tt := range []struct {
		name    string
		fn      func(context.Context, TX) (string, error)
		code    once.Code // "" for a Failure
		state   store.State
		effects int
	}{
		{"Fails", func(context.Context, TX) (string, error) { return "", errors.New("transient") }, once.CodeFailed, store.StateAbsent, 0},
		{"FailsOnStatement", func(ctx context.Context, tx TX) (string, error) { return "", u.Fail(ctx, tx) }, once.CodeFailed, store.StateAbsent, 0},
		{"Swallows", func(ctx context.Context, tx TX) (string, error) { _ = u.Fail(ctx, tx); return "value", nil }, once.CodeAborted, store.StateAbsent, 0},
		{"Declines", func(context.Context, TX) (string, error) { return "", declined }, "", store.StateDone, 0},
		{"DeclinesOnStatement", func(ctx context.Context, tx TX) (string, error) { _ = u.Fail(ctx, tx); return "", declined }, "", store.StateDone, 0},
		{"DeclinesAndKeeps", func(context.Context, TX) (string, error) { return "", kept }, "", store.StateDone, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, commit := range []bool{true, false} {
				c, id := u.own(t), newID()
				_, err := join(t, c, id, tt.fn)
				if f := (*once.Failure)(nil); once.CodeOf(err) != tt.code || errors.As(err, &f) != (tt.code == "") {
					t.Errorf("%v, want code %q", err, tt.code)
				}
				if err := u.Write(bounded(t), c.tx, c.key+"later"); err != nil {
					t.Error("the caller's transaction cannot be used any more:", err)
				}
				state, effects := tt.state, tt.effects
				if !commit {
					state, effects = store.StateAbsent, 0
				}
				ends(t, c, commit, id, state, effects)
				if state == store.StateAbsent {
					u.execute(t, done(id, "r")) // no claim was left behind
				}
			}
		})
	}
	t.Run("HandlerEnds", func(t *testing.T) { testJoinEnded(t, u, e) })
	t.Run("Nested", func(t *testing.T) { // an operation within the handler of another one
		lost := errors.New("transient")
		for _, inner := range []struct {
			err    error
			passed bool // the outer handler returns the error of the inner one
			want   int  // effects of the outer operation, and of the inner one if it does not fail
			done   [2]store.State
		}{
			{nil, false, 1, [2]store.State{store.StateDone, store.StateDone}},
			{lost, false, 1, [2]store.State{store.StateDone, store.StateAbsent}},
			{lost, true, 0, [2]store.State{store.StateAbsent, store.StateAbsent}},
			{declined, false, 1, [2]store.State{store.StateDone, store.StateDone}},
			{declined, true, 0, [2]store.State{store.StateDone, store.StateAbsent}},
		} {
			c, a, b := u.own(t), newID(), newID()
			_, err := join(t, c, a, func(ctx context.Context, tx TX) (string, error) {
				_, err := once.Join(ctx, e, tx, once.Operation{Scope: b.Scope, Key: b.Key}, func(ctx context.Context, tx TX) (string, error) {
					return "value", errors.Join(u.Write(ctx, tx, b.Key), inner.err)
				})
				if inner.passed {
					return "", err
				}
				return "value", nil
			})
			if (err != nil) != inner.passed {
				t.Errorf("the inner call has failed: %v; its error was passed on: %v; the outer call has returned %v", inner.err, inner.passed, err)
			}
			ends(t, c, true, a, inner.done[0], inner.want)
			u.wantState(t, b, inner.done[1])
			effects := 0
			if inner.err == nil {
				effects = 1
			}
			u.wantEffects(t, b.Key, effects)
		}
	})
	t.Run("NestedInDo", func(t *testing.T) { // an operation that fails leaves the handler's transaction usable
		a, b := newID(), newID()
		_, err := once.Do(bounded(t), e, once.Operation{Scope: a.Scope, Key: a.Key}, func(ctx context.Context, tx TX) (string, error) {
			if _, err := once.Do(ctx, e, once.Operation{Scope: b.Scope, Key: b.Key}, succeed); once.CodeOf(err) != once.CodeMisuse {
				t.Error("Do in the handler of another Do has returned:", err)
			}
			_, err := once.Join(ctx, e, tx, once.Operation{Scope: b.Scope, Key: b.Key}, func(ctx context.Context, tx TX) (string, error) {
				return "", errors.Join(u.Write(ctx, tx, b.Key), u.Fail(ctx, tx))
			})
			if once.CodeOf(err) != once.CodeFailed {
				t.Error(err)
			}
			return "value", u.Write(ctx, tx, a.Key)
		})
		if err != nil {
			t.Error(err)
		}
		u.wantState(t, a, store.StateDone)
		u.wantEffects(t, a.Key, 1)
		u.wantState(t, b, store.StateAbsent)
		u.wantEffects(t, b.Key, 0)
	})
	t.Run("Panics", func(t *testing.T) {
		c, id := u.own(t), newID()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of the handler was not passed on")
				}
			}()
			_, _ = join(t, c, id, func(context.Context, TX) (string, error) { panic("boom") })
		}()
		ends(t, c, true, id, store.StateAbsent, 0)
	})
	t.Run("Again", func(t *testing.T) { // in the same transaction, after a failure
		c, id := u.own(t), newID()
		_, err := join(t, c, id, func(ctx context.Context, tx TX) (string, error) { return "", u.Fail(ctx, tx) })
		if once.CodeOf(err) != once.CodeFailed {
			t.Error(err)
		}
		if r, err := join(t, c, id, succeed); err != nil || r.Replayed {
			t.Errorf("%+v, %v", r, err)
		}
		ends(t, c, true, id, store.StateDone, 1)
	})
}
