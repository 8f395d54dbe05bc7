package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

var deposit = once.Operation{Scope: "acme deposits", Key: "d-1"}

// bank counts what was done and undone in one database, and keeps the values that undos were given.
type bank struct {
	*testing.T

	db     *memstore.Store
	engine *once.Engine[tx]
	given  []string
}

func newBank(t *testing.T, cfg once.Config) *bank {
	db := memstore.New()
	return &bank{T: t, db: db, engine: once.New(db, cfg)}
}

func (b *bank) do(op once.Operation) (once.Result[string], error) {
	return once.Do(b.Context(), b.engine, op, charge("done"))
}

func (b *bank) undo(op once.Operation) (bool, error) {
	return once.Undo(b.Context(), b.engine, op, func(ctx context.Context, t tx, value string) error {
		b.given = append(b.given, value)
		_, err := charge("undone")(ctx, t)
		return err
	})
}

func (b *bank) wants(done, undone int) {
	b.Helper()
	wantEffects(b.T, b.db, "done", done)
	wantEffects(b.T, b.db, "undone", undone)
}

// TestUndoOfWhatWasExecuted: what was executed is undone once, by an undo that gets the stored value.
func TestUndoOfWhatWasExecuted(t *testing.T) {
	b := newBank(t, once.Config{})
	first, err := b.do(deposit)
	must(t, err)
	for range 3 {
		if did, err := b.undo(deposit); !did || err != nil {
			t.Errorf("%v, %v", did, err)
		}
	}
	if !slices.Equal(b.given, []string{first.Value}) {
		t.Errorf("undos were given %q, want %q once", b.given, first.Value)
	}
	if r, err := b.do(deposit); err != nil || !r.Replayed || r.Value != first.Value {
		t.Errorf("a retry behind the undo: %+v, %v", r, err)
	}
	b.wants(1, 1)
}

// TestUndoBeforeItWasDone: a forward that comes after its undo is told that it failed, for good, and is not executed.
func TestUndoBeforeItWasDone(t *testing.T) {
	b := newBank(t, once.Config{})
	for range 2 {
		if did, err := b.undo(deposit); did || err != nil {
			t.Errorf("%v, %v", did, err)
		}
		_, err := b.do(deposit)
		f := (*once.Failure)(nil)
		if !errors.As(err, &f) || f.Code != once.FailureUndone || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("a late forward: %v, %v", err, once.EffectOf(err))
		}
		if class, _ := retry.Classify(err); class != retry.ClassFinal {
			t.Errorf("a late forward is %v", class)
		}
	}
	b.wants(0, 0)
}

// TestUndoOfAFailure: a "no" has no effect, also if it has kept what it has written.
func TestUndoOfAFailure(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		b := newBank(t, once.Config{})
		refuse := func(ctx context.Context, t tx) (string, error) {
			v, err := charge("done")(ctx, t)
			return v, errors.Join(err, &once.Failure{Code: "account_closed", CommitWrites: keeps})
		}
		_, err := once.Do(t.Context(), b.engine, deposit, refuse)
		if did, undo := b.undo(deposit); did || undo != nil {
			t.Errorf("%v, %v", did, undo)
		}
		if _, again := b.do(deposit); err == nil || again == nil || again.Error() != err.Error() {
			t.Errorf("the answer was %v and is %v", err, again)
		}
		wantEffects(t, b.db, "undone", 0)
	}
}

// TestUndoWaits: an operation in flight is waited for, and undone with the value that it comes to; or an undo that must not wait is told so.
func TestUndoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t, once.Config{})
		go func() {
			_, _ = once.Do(t.Context(), b.engine, deposit, func(ctx context.Context, tx tx) (string, error) {
				pass(time.Minute)
				return charge("done")(ctx, tx)
			})
		}()
		synctest.Wait()
		did, err := b.undo(deposit)
		if did || once.CodeOf(err) != once.CodeInFlight || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("%v, %v", did, err)
		}
		waits := deposit
		waits.Wait = time.Hour
		if did, err = b.undo(waits); !did || err != nil {
			t.Errorf("%v, %v", did, err)
		}
		b.wants(1, 1)
	})
}

// TestUndoOfAnother: an undo that asks for another operation under the key is refused, and so is one whose key names something else.
func TestUndoOfAnother(t *testing.T) {
	b := newBank(t, once.Config{})
	asked, other := deposit, deposit
	asked.Fingerprint, other.Fingerprint = once.FingerprintOf([]byte("10")), once.FingerprintOf([]byte("20"))
	_, err := b.do(asked)
	must(t, err)
	if did, err := b.undo(other); did || once.CodeOf(err) != once.CodeMismatch {
		t.Errorf("another amount: %v, %v", did, err)
	}
	for _, taken := range []string{"string", `{"value":1}`} {
		foreign := deposit
		foreign.Key = "x" + taken
		_, err = b.do(foreign)
		must(t, err)
		foreign.Key += ":undo"
		_, err := once.Do(t.Context(), b.engine, foreign, func(context.Context, tx) (json.RawMessage, error) { return json.RawMessage(`{"value":1}`), nil })
		must(t, err)
		foreign.Key = "x" + taken
		if did, err := b.undo(foreign); did || once.CodeOf(err) != once.CodeMismatch {
			t.Errorf("the key of the undo is that of %s: %v, %v", taken, did, err)
		}
	}
	b.wants(3, 0)
	if did, err := b.undo(asked); !did || err != nil {
		t.Errorf("%v, %v", did, err)
	}
	if did, err := b.undo(deposit); !did || err != nil {
		t.Errorf("without a fingerprint: %v, %v", did, err)
	}
}

// TestUndoLastsAsLongAsTheForward: as long as the record of an operation is there, so is that of its undo. Behind both, an undo that says
// when the operation was first sent is refused.
func TestUndoLastsAsLongAsTheForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t, once.Config{Retain: time.Hour, Skew: time.Minute})
		long := deposit
		long.Retain, long.Attempt.FirstSent = 3*time.Hour, time.Now()
		_, err := b.do(long)
		must(t, err)
		for range 3 { // the last time a minute before the record of the forward expires
			if did, err := b.undo(long); !did || err != nil {
				t.Errorf("%v, %v", did, err)
			}
			b.db.Advance(89*time.Minute + 30*time.Second)
		}
		b.wants(1, 1)
		b.db.Advance(2 * time.Hour)
		if did, err := b.undo(long); did || once.CodeOf(err) != once.CodeStale {
			t.Errorf("of an operation that may be forgotten: %v, %v", did, err)
		}
		tombstone := deposit
		tombstone.Key, tombstone.Retain = "d-2", 3*time.Hour
		if did, err := b.undo(tombstone); did || err != nil {
			t.Errorf("%v, %v", did, err)
		}
		b.db.Advance(179 * time.Minute)
		if _, err := b.do(tombstone); !strings.Contains(fmt.Sprint(err), once.FailureUndone) {
			t.Errorf("a forward that is late: %v", err)
		}
		b.wants(1, 1)
	})
}

// TestUndoFails: an undo that has failed runs again, and one that says no has said it for good.
func TestUndoFails(t *testing.T) {
	b := newBank(t, once.Config{})
	_, err := b.do(deposit)
	must(t, err)
	no := &once.Failure{Code: "spent"}
	for i, answer := range []error{errors.New("down"), no, nil} {
		did, err := once.Undo(t.Context(), b.engine, deposit, func(context.Context, tx, string) error { return answer })
		if want := []string{"failed", "spent", "spent"}[i]; did || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, %v; want %s", did, err, want)
		}
	}
	wrong := deposit
	wrong.Key = "d-2"
	_, err = b.do(wrong)
	must(t, err)
	did, err := once.Undo(t.Context(), b.engine, wrong, func(context.Context, tx, struct{ Cents int }) error { return nil })
	if did || once.CodeOf(err) != once.CodeNoResult || once.EffectOf(err) != once.EffectApplied {
		t.Errorf("of a value of another type: %v, %v", did, err)
	}
}

// TestUndoIsRefused: no operation, and work that is several commits.
func TestUndoIsRefused(t *testing.T) {
	b := newBank(t, once.Config{RequireNamespace: once.Namespace{Prefix: "bank", Environment: "test", Version: "v1"}})
	for _, op := range []once.Operation{{}, deposit, {Key: "k"}} {
		if did, err := b.undo(op); did || once.CodeOf(err) != once.CodeInvalid {
			t.Errorf("%+v: %v, %v", op, did, err)
		}
	}
	named := once.Operation{Scope: "s", Key: "bank:test:v1:" + strings.Repeat("k", once.MaxKey-len("bank:test:v1:"))}
	_, err := b.do(named)
	must(t, err)
	if did, err := b.undo(named); !did || err != nil {
		t.Errorf("with the longest key: %v, %v", did, err)
	}
	leased := once.New[*leasedRun](newLeasing(), once.Config{})
	did, err := once.Undo(t.Context(), leased, deposit, func(context.Context, *leasedRun, string) error { return nil })
	if did || once.CodeOf(err) != once.CodeInvalid || !strings.Contains(err.Error(), "saga") {
		t.Errorf("under a lease: %v, %v", did, err)
	}
}

// TestUndoIsInterrupted: whichever call of the store fails under an undo, before or after it was applied, the next undo finishes it: its
// effect is there once.
func TestUndoIsInterrupted(t *testing.T) {
	for _, executed := range []bool{true, false} {
		for _, applied := range []bool{true, false} {
			interrupted := 0
			for at := 1; ; at++ {
				b, calls := newBank(t, once.Config{}), 0
				fail := func(do func() error) error {
					if calls++; calls != at {
						return do()
					}
					err := error(&store.Error{Kind: store.KindUnavailable, Err: errors.New("killed")})
					if applied {
						err = errors.Join(&store.Error{Kind: store.KindLost, Err: errors.New("killed")}, do())
					}
					return err
				}
				if executed {
					_, err := b.do(deposit)
					must(t, err)
				}
				whole := b.engine
				b.engine = once.New[tx](&spy{
					Store: b.db,
					begin: func(ctx context.Context, ask store.BeginOptions) (txn store.Transaction[tx], rec store.Record, err error) {
						err = fail(func() error { txn, rec, err = b.db.Begin(ctx, ask); return err })
						if err != nil && txn != nil {
							_ = txn.Rollback(ctx)
							txn = nil
						}
						return txn, rec, err
					},
					commit: func(ctx context.Context, txn store.Transaction[tx], c store.Change) error {
						err := fail(func() error { return txn.Commit(ctx, c) })
						if store.KindOf(err) == store.KindUnavailable {
							_ = txn.Rollback(ctx) // as the server does
						}
						return err
					},
				}, once.Config{Runs: 1})
				if _, err := b.undo(deposit); err != nil {
					interrupted++
				}
				b.engine = whole
				if did, err := b.undo(deposit); did != executed || err != nil {
					t.Errorf("call %d: %v, %v", at, did, err)
				}
				if executed {
					b.wants(1, 1)
				} else if _, err := b.do(deposit); err == nil {
					t.Errorf("call %d: a late forward was executed", at)
				}
				if calls < at {
					break
				}
			}
			if !applied && interrupted < 2 {
				t.Errorf("only %d undos were interrupted", interrupted)
			}
		}
	}
}
