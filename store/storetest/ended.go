package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// testJoinEnded lets the handler of a join end the caller's transaction. The error that the caller gets must then
// be true: if it says "not applied", the operation can run again.
func testJoinEnded[TX any](t *testing.T, u *suite[TX], e *once.Engine[TX]) {
	for _, commit := range []bool{true, false} {
		for name, after := range map[string]error{
			"Succeeds": nil, "Fails": errors.New("transient"), "Declines": &once.Failure{Code: "declined"},
		} {
			end := map[bool]string{true: "Commits", false: "RollsBack"}[commit]
			t.Run(end+name, func(t *testing.T) {
				c, id := u.own(t), newID()
				_, err := once.Join(bounded(t), e, c.tx, operation(id), func(ctx context.Context, tx TX) (string, error) {
					if err := u.Write(ctx, tx, id.Key); err != nil {
						t.Error("Write:", err)
					}
					_ = c.end(commit) // may be refused
					return "value", after
				})
				_ = c.end(false)
				if !commit {
					u.wantEffects(t, id.Key, 0)
				}
				u.wantTruth(t, err, id, c.key)
			})
		}
	}
	t.Run("AfterAJoin", func(t *testing.T) { // the join is of another operation, and its end is not the end of the outer operation
		if u.End == nil {
			return
		}
		id, inner := newID(), newID()
		_, err := once.Do(bounded(t), e, operation(id), func(ctx context.Context, tx TX) (string, error) {
			_, err := once.Join(ctx, e, tx, operation(inner), func(ctx context.Context, tx TX) (string, error) {
				return "value", u.Write(ctx, tx, inner.Key)
			})
			if err = errors.Join(err, u.Write(ctx, tx, id.Key)); err != nil {
				t.Error(err)
			}
			_ = u.End(ctx, tx)
			return "value", nil
		})
		u.wantTruth(t, err, id, inner.Key)
	})
}

// wantTruth wants an error whose Effect is true for the operation id and for the caller's own write.
func (u *suite[TX]) wantTruth(t *testing.T, err error, id store.ID, with string) {
	t.Helper()
	switch once.EffectOf(err) {
	case once.EffectNotApplied:
		u.wantEffects(t, with, 0)
		u.wantEffects(t, id.Key, 0)
		u.execute(t, done(id, "r")) // no claim was left behind
		u.wantEffects(t, id.Key, 1)
	case once.EffectInDoubt:
		if once.CodeOf(err) != once.CodeMisuse {
			t.Errorf("%v, want %s", err, once.CodeMisuse)
		}
	default:
		t.Errorf("the handler has ended the transaction: %v", err)
	}
	if err == nil {
		t.Error("the handler has ended the transaction, but the call has returned no error")
	}
}
