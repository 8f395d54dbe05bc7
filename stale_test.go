package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestStaleRetryIsRefused: what may have been executed and forgotten is not executed
// again; what is still known is replayed, and what was not said changes nothing.
func TestStaleRetryIsRefused(t *testing.T) {
	for _, join := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			e := once.New(s, once.Config{Retain: time.Hour, Skew: 10 * time.Minute})
			runs := 0
			do := func(op once.Operation) (once.Result[int], error) {
				fn := func(context.Context, *memstore.Tx) (int, error) {
					runs++
					return runs, nil
				}
				if !join {
					return once.Do(t.Context(), e, op, fn)
				}
				tx := s.BeginTx()
				r, err := once.Join(t.Context(), e, tx, op, fn)
				return r, errors.Join(err, tx.Commit())
			}
			sent := once.Operation{Scope: "s", Key: "sent", Attempt: once.Attempt{Number: 1, FirstSent: time.Now()}}
			silent := once.Operation{Scope: "s", Key: "silent"}
			short := once.Operation{Scope: "s", Key: "short", Attempt: once.Attempt{FirstSent: time.Now()}, Retain: 20 * time.Minute}
			failed := once.Operation{Scope: "s", Key: "never executed", Attempt: once.Attempt{FirstSent: time.Now()}}
			for range 2 {
				for i, op := range []once.Operation{sent, silent, short} {
					if r, err := do(op); err != nil || r.Value != i+1 {
						t.Fatalf("%+v, %v", r, err)
					}
				}
			}
			s.Advance(19 * time.Minute)
			if r, err := do(short); err != nil || !r.Replayed {
				t.Errorf("a retry past the bound of what is still known: %+v, %v", r, err)
			}
			s.Advance(time.Minute)
			if _, err := do(short); once.CodeOf(err) != once.CodeStale {
				t.Errorf("a retry after the retention of its own: %v", err)
			}
			s.Advance(29*time.Minute + 59*time.Second)
			if r, err := do(sent); err != nil || !r.Replayed {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err := do(failed); err != nil {
				t.Errorf("just in time: %v", err)
			}
			s.Advance(10*time.Minute + time.Second)
			for range 2 { // a refusal leaves nothing behind
				r, err := do(sent)
				if once.CodeOf(err) != once.CodeStale || once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("after the retention: %+v, %v", r, err)
				}
			}
			if r, err := do(silent); err != nil || r.Replayed {
				t.Errorf("a retry that does not say when it was sent first: %+v, %v", r, err)
			}
			if runs != 5 {
				t.Errorf("%d executions, want 5", runs)
			}
		})
	}
}

// TestClockSkewThatIsAllowed: how far clocks may be apart, and how far not.
func TestClockSkewThatIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do := func(cfg once.Config, op once.Operation, age time.Duration) once.Code {
			op.Scope, op.Key, op.Attempt.FirstSent = "s", once.NewKey(), time.Now().Add(-age)
			_, err := once.Do(t.Context(), once.New(memstore.New(), cfg), op, func(context.Context, *memstore.Tx) (int, error) { return 1, nil })
			if code := once.CodeOf(err); (code == once.CodeInvalid) != errors.Is(err, wire.ErrFuture) {
				t.Error(err)
			}
			return once.CodeOf(err)
		}
		hour, minute := once.Config{Retain: time.Hour}, once.Config{Retain: time.Minute}
		own := once.Config{Retain: time.Hour, Skew: time.Minute}
		for _, c := range []struct {
			cfg    once.Config
			retain time.Duration
			age    time.Duration
			want   once.Code
		}{
			{hour, 0, -5 * time.Minute, ""},
			{hour, 0, -5*time.Minute - 1, once.CodeInvalid},
			{hour, 0, 55*time.Minute - 1, ""},
			{hour, 0, 55 * time.Minute, once.CodeStale},
			{hour, 2 * time.Hour, 115*time.Minute - 1, ""},
			{hour, 0, 1000 * time.Hour, once.CodeStale},
			{minute, 0, 45*time.Second - 1, ""}, // a quarter of it
			{minute, 0, 45 * time.Second, once.CodeStale},
			{own, 0, 59*time.Minute - 1, ""},
			{own, 0, 59 * time.Minute, once.CodeStale},
			{own, 0, -time.Minute - 1, once.CodeInvalid},
		} {
			if got := do(c.cfg, once.Operation{Retain: c.retain}, c.age); got != c.want {
				t.Errorf("sent first %v ago, kept for %v or %v: %q, want %q", c.age, c.cfg.Retain, c.retain, got, c.want)
			}
		}
	})
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "Skew") {
			t.Errorf("a Skew as long as the retention: %q", p)
		}
	}()
	once.New(memstore.New(), once.Config{Retain: time.Hour, Skew: time.Hour})
}

// TestStaleAfterALostCommit: what is in doubt is settled first. Only if nothing was
// applied is it too late.
func TestStaleAfterALostCommit(t *testing.T) {
	for _, applied := range []bool{false, true} {
		s := &losing{Store: memstore.New(), applied: applied}
		_, err := once.Do(t.Context(), once.New[*memstore.Tx](s, once.Config{Retain: time.Hour}),
			once.Operation{Scope: "s", Key: "k", Attempt: once.Attempt{FirstSent: time.Now()}}, func(context.Context, *memstore.Tx) (int, error) { return 1, nil })
		switch {
		case !s.lost:
			t.Error("vacuous: no commit was lost")
		case applied && err != nil, !applied && (once.CodeOf(err) != once.CodeStale || once.EffectOf(err) != once.EffectNotApplied):
			t.Errorf("applied %t: %v", applied, err)
		}
	}
}

// losing loses the answer to a commit, which takes so long that it is then too late.
type losing struct {
	*memstore.Store
	applied, lost bool
}

func (s *losing) Begin(ctx context.Context, ask store.BeginOptions) (store.Transaction[*memstore.Tx], store.Record, error) {
	txn, rec, err := s.Store.Begin(ctx, ask)
	if txn != nil && !s.lost {
		txn = losingTxn{txn, s}
	}
	return txn, rec, err
}

type losingTxn struct {
	store.Transaction[*memstore.Tx]
	s *losing
}

func (t losingTxn) Commit(ctx context.Context, c store.Change) error {
	t.s.lost = true
	end := t.Rollback
	if t.s.applied {
		end = func(ctx context.Context) error { return t.Transaction.Commit(ctx, c) }
	}
	if err := end(ctx); err != nil {
		return err
	}
	t.s.Advance(56 * time.Minute)
	return &store.Error{Kind: store.KindLost, Err: errors.New("lost")}
}

func TestKeyTime(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	key := once.NewKey()
	for _, k := range []string{key, strings.ToUpper(key), once.Namespace{Prefix: "a", Environment: "live", Version: "v1"}.Key(key)} {
		if at, ok := keyname.Time(k); !ok || at.Before(before) || at.After(time.Now()) {
			t.Errorf("%s: %v, %t", k, at, ok)
		}
	}
	if at, ok := keyname.Time("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"); !ok || at.UnixMilli() != 0x017f22e279b0 { // RFC 9562, A.6
		t.Error(at, ok)
	}
	for _, k := range []string{
		"", ":", "refund:42", "8e03978e-40d5-43e8-bc93-6894a57f9324", "017f22e2-79b0-7cc3-58c4-dc0c0c07398f",
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398", "017f22e2x79b0-7cc3-98c4-dc0c0c07398f", "017f22eg-79b0-7cc3-98c4-dc0c0c07398f", key + ":",
	} {
		if at, ok := keyname.Time(k); ok {
			t.Errorf("%s: %v", k, at)
		}
	}
}
