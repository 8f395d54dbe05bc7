package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

func TestNewRefusesMistakes(t *testing.T) {
	for name, cfg := range map[string]once.Config{
		"retain": {Retain: -1}, "runs": {Runs: -1}, "settle": {Settle: -1},
		"namespace": {RequireNamespace: once.Namespace{Prefix: "a"}}, "colon": {RequireNamespace: once.Namespace{Prefix: "a:b", Environment: "c", Version: "d"}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			once.New(memstore.New(), cfg)
		}()
	}
}

func TestOperationsThatAreInvalid(t *testing.T) {
	n := once.Namespace{Prefix: "billing", Environment: "live", Version: "v1"}
	for name, op := range map[string]once.Operation{
		"no scope":        {Key: n.Key("k")},
		"no key":          {Scope: "s"},
		"long scope":      {Scope: strings.Repeat("s", keyname.MaxScope+1), Key: n.Key("k")},
		"long key":        {Scope: "s", Key: n.Key(strings.Repeat("k", once.MaxKey))},
		"control":         {Scope: "s\n", Key: n.Key("k")},
		"not UTF-8":       {Scope: "s\xff", Key: n.Key("k")},
		"wait":            {Scope: "s", Key: n.Key("k"), Wait: -1},
		"retain":          {Scope: "s", Key: n.Key("k"), Retain: -1},
		"other namespace": {Scope: "s", Key: "billing:test:v1:k"},
		"no id":           {Scope: "s", Key: "billing:live:v1:"},
		"prefix":          {Scope: "s", Key: "billing:live:v10:k"},
	} {
		s := memstore.New()
		e := once.New(s, once.Config{RequireNamespace: n})
		_, err := once.Do(t.Context(), e, op, charge("k"))
		_, joined := once.Join(t.Context(), e, s.BeginTx(), op, charge("k"))
		for _, err := range []error{err, joined} {
			if once.CodeOf(err) != once.CodeInvalid || once.EffectOf(err) != once.EffectNotApplied {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantEffects(t, s, "k", 0)
	}
	e := once.New(memstore.New(), once.Config{RequireNamespace: n})
	longest := once.Operation{Scope: strings.Repeat("s", keyname.MaxScope), Key: n.Key(strings.Repeat("k", once.MaxKey-len(n.Key(""))))}
	if _, err := once.Do(t.Context(), e, longest, charge("k")); err != nil {
		t.Error(err)
	}
}

func TestRetainOfConfigAndOperation(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{Retain: 10 * time.Hour})
	if e.Config().Retain != 10*time.Hour || e.Store() != store.Store[tx](s) || once.New(s, once.Config{}).Config().Retain != once.DefaultRetain {
		t.Error("Retain or Store is not what was configured")
	}
	for _, tt := range []struct {
		op   once.Operation
		keep time.Duration
	}{
		{once.Operation{Scope: "s", Key: "a"}, 10 * time.Hour},
		{once.Operation{Scope: "s", Key: "b", Retain: 20 * time.Hour}, 20 * time.Hour},
	} {
		do := func() once.Result[string] {
			r, err := once.Do(t.Context(), e, tt.op, charge(tt.op.Key))
			must(t, err)
			return r
		}
		do()
		s.Advance(tt.keep - time.Minute)
		if !do().Replayed {
			t.Errorf("%s: gone too early", tt.op.Key)
		}
		s.Advance(2 * time.Minute)
		if do().Replayed {
			t.Errorf("%s: kept too long", tt.op.Key)
		}
	}
}

func TestTxBelongsToItsEngine(t *testing.T) {
	e, other := once.New(memstore.New(), once.Config{}), once.New(memstore.New(), once.Config{})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, t1 tx) (int, error) {
		if got, ok := e.Tx(ctx); !ok || got != t1 {
			t.Error("the transaction is not in the context")
		}
		if _, ok := other.Tx(ctx); ok {
			t.Error("another engine has a transaction")
		}
		inner, err := once.Do(ctx, other, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, t2 tx) (int, error) {
			if got, ok := e.Tx(ctx); !ok || got != t1 {
				t.Error("the outer transaction is not in the context")
			}
			if got, ok := other.Tx(ctx); !ok || got != t2 {
				t.Error("the inner transaction is not in the context")
			}
			return 1, nil
		})
		return inner.Value, err
	})
	must(t, err)
	if _, ok := e.Tx(t.Context()); ok {
		t.Error("a transaction out of nowhere")
	}
}

// plainly does work without an operation, and returns its result.
func plainly(t *testing.T, e *once.Engine[tx], err error) (string, error) {
	t.Helper()
	rec, replayed, err := e.Exec(t.Context(), once.Operation{}, func(ctx context.Context, t tx) (once.Answer, error) {
		_, failed := charge("k")(ctx, t)
		return once.Answer{Result: store.Result{Status: 201, Body: []byte("body")}}, errors.Join(failed, err)
	})
	if replayed || err == nil && rec.Result.Status != 201 {
		t.Errorf("record %+v, replayed %t", rec, replayed)
	}
	return string(rec.Result.Body), err
}

// Work without an operation is an ordinary transaction that is run again if need
// be, and whose result reaches the caller though it is not kept.
func TestWithoutOperation(t *testing.T) {
	for _, cfg := range []once.Config{{}, {HashKeys: true, Encrypter: sealer(t, 1)}} {
		s := memstore.New()
		f, r := storetest.NewFaults(s), new(recorder)
		cfg.Observer = r
		for i, p := range []storetest.Point{storetest.BeginRetry, storetest.CommitRetry} {
			f.Arm(storetest.Plan{At: []storetest.Point{p}})
			for range 2 {
				if body, err := plainly(t, once.New(f, cfg), nil); err != nil || body != "body" {
					t.Errorf("%s: %q, %v", p, body, err)
				}
			}
			want := []string{"rerun", "claimed", "finished executed, applied", "claimed", "finished executed, applied"}
			if p == storetest.CommitRetry {
				want = append([]string{"claimed"}, want...)
			}
			for _, e := range wantEvents(t, r, want...) {
				if e.KeyHash != "" || e.Scope != "" {
					t.Errorf("%+v names an operation", e)
				}
			}
			wantEffects(t, s, "k", 2*(i+1))
		}
		f.Arm(storetest.Plan{At: []storetest.Point{storetest.BeginRetry, storetest.CommitDown}})
		if _, err := plainly(t, once.New(f, cfg), nil); once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied {
			t.Error(err)
		}
		if _, err := plainly(t, once.New(f, cfg), errors.New("x")); once.CodeOf(err) != once.CodeFailed {
			t.Error(err)
		}
		wantEffects(t, s, "k", 4)
	}
}

func TestDoRefusesNoOperation(t *testing.T) {
	s, r := memstore.New(), new(recorder)
	_, err := once.Do(t.Context(), once.New(s, once.Config{Observer: r}), once.Operation{Wait: time.Second}, charge("k"))
	if once.CodeOf(err) != once.CodeInvalid || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	wantEvents(t, r, "finished invalid, not applied")
	wantEffects(t, s, "k", 0)
}

// The code around a handler can panic as well.
func TestPanicsOfOthersRollBack(t *testing.T) {
	for name, cfg := range map[string]once.Config{
		"sealer":   {Encrypter: badEncrypter{}},
		"observer": {Observer: badObserver(once.EventClaimed)},
		"outside":  {Observer: badObserver(once.EventEffectOutsideTx)},
	} {
		s := memstore.New()
		op := once.Operation{Scope: "s", Key: "k", Request: []byte("r")}
		func() {
			defer func() { _ = recover() }()
			_, err := once.Do(t.Context(), once.New(s, cfg), op, func(context.Context, tx) (int, error) { return 1, nil })
			t.Errorf("%s: Do has returned: %v", name, err)
		}()
		if r, err := once.Do(t.Context(), once.New(s, once.Config{}), op, charge("k")); err != nil || r.Replayed {
			t.Errorf("%s: then %+v, %v", name, r, err)
		}
	}
}

type badEncrypter struct{}

func (badEncrypter) Decrypt(_, _ []byte) ([]byte, error) { panic("boom") }
func (badEncrypter) Encrypt(_, _ []byte) ([]byte, error) { panic("boom") }

type badObserver once.EventType

func (o badObserver) Observe(_ context.Context, e once.Event) {
	if e.Type == once.EventType(o) {
		panic("boom")
	}
}

func TestValuesThatHaveNoJSON(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{})
	_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, t tx) (float64, error) {
		_, err := charge("k")(ctx, t)
		return math.NaN(), err
	})
	if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	_, err = once.Do(t.Context(), e, once.Operation{Scope: "s", Key: "k"}, func(context.Context, tx) (int, error) {
		return 0, &once.Failure{Code: "x", Detail: json.RawMessage("{")}
	})
	if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	wantEffects(t, s, "k", 0)
}

func TestJoinSaysWhyItWasRefused(t *testing.T) {
	s := memstore.New()
	e := once.New(s, once.Config{})
	over, poisoned := s.BeginTx(), s.BeginTx()
	over.Rollback()
	_, _ = poisoned.Insert("k", ""), poisoned.Insert("k", "")
	for name, tt := range map[string]struct {
		tx   tx
		want once.Code
	}{
		"over": {over, once.CodeMisuse}, "poisoned": {poisoned, once.CodeAborted}, "another database": {memstore.New().BeginTx(), once.CodeMisuse},
	} {
		_, err := once.Join(t.Context(), e, tt.tx, once.Operation{Scope: "s", Key: "k"}, charge("k"))
		if once.CodeOf(err) != tt.want || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("%s: %v", name, err)
		}
	}
}
