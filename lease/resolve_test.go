package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// undecided is what names the call of the operation that is unknown.
func undecided(t *testing.T, s store.Operations) string {
	t.Helper()
	rec, err := s.Read(t.Context(), id)
	must(t, err)
	p, err := lease.ProgressOf(id, rec)
	must(t, err)
	return p.CallID
}

// A person ends that an outcome is unknown, in each of the ways. The same decision again changes nothing, also later.
func TestResolveAnUnknownOutcome(t *testing.T) {
	for _, tt := range []struct {
		name  string
		how   lease.Resolution
		value string
		keys  int // with which the call was made
		calls int // of the phase behind it
	}{
		{"it has happened, and the operation goes on", lease.Resolution{CallValue: []byte(`"by hand"`)}, "by hand, and more", 1, 1},
		{"it has happened", lease.Resolution{Result: []byte(`"by hand"`)}, "by hand", 1, 0},
		{"it has failed", lease.Resolution{Failure: &once.Failure{Code: "declined"}}, "", 1, 0},
		{"run again", lease.Resolution{RunAgain: true}, "paid, and more", 1, 1},
		{"run again under another key", lease.Resolution{RunAgain: true, KeyVoided: true}, "paid, and more", 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New()
			keys, calls := map[string]int{}, 0
			run := func(ctx context.Context, r *lease.Run) (string, error) {
				paid, err := lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
					if keys[key]++; len(keys) == 1 && keys[key] == 1 {
						return "", errDead
					}
					return "paid", nil
				}, lease.CallPolicy{})
				if err != nil {
					return "", err
				}
				return lease.Call(ctx, r, "mail", func(context.Context, string) (string, error) {
					calls++
					return paid + ", and more", nil
				}, lease.CallPolicy{})
			}
			_, err := once.Do(t.Context(), node(s), op, run)
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			tt.how.CallID = undecided(t, s)
			again := func() {
				t.Helper()
				before, err := s.Read(t.Context(), id)
				must(t, err)
				must(t, lease.Resolve(t.Context(), s, id, tt.how))
				other := lease.Resolution{CallID: tt.how.CallID, Failure: &once.Failure{Code: "other"}}
				if err := lease.Resolve(t.Context(), s, id, other); store.KindOf(err) != store.KindTaken || !strings.Contains(err.Error(), "was different") {
					t.Errorf("another decision about the same call: %v", err)
				}
				if after, err := s.Read(t.Context(), id); err != nil || after.Fence != before.Fence {
					t.Errorf("fence %d after %d, %v", after.Fence, before.Fence, err)
				}
			}
			must(t, lease.Resolve(t.Context(), s, id, tt.how))
			again()
			r, err := once.Do(t.Context(), node(s), op, run)
			if f := (*once.Failure)(nil); tt.how.Failure != nil && (!errors.As(err, &f) || f.Code != "declined") || tt.how.Failure == nil && err != nil {
				t.Error(err)
			}
			if r.Value != tt.value || len(keys) != tt.keys || calls != tt.calls {
				t.Errorf("%q with %d keys and %d calls, want %q with %d and %d", r.Value, len(keys), calls, tt.value, tt.keys, tt.calls)
			}
			again()
		})
	}
}

// A decision is about the call that it names: what was decided about one call does nothing to another one, nor to this one when it was made again.
func TestResolveNamesTheCall(t *testing.T) {
	s := memstore.New()
	keys, mails := map[string]int{}, 0
	run := func(ctx context.Context, r *lease.Run) (string, error) {
		_, err := lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
			if keys[key]++; len(keys) < 3 {
				return "", errDead
			}
			return "paid", nil
		}, lease.CallPolicy{})
		if err != nil {
			return "", err
		}
		return lease.Call(ctx, r, "mail", func(context.Context, string) (string, error) {
			mails++
			return "", errDead
		}, lease.CallPolicy{})
	}
	unknown := func() string {
		t.Helper()
		_, err := once.Do(t.Context(), node(s), op, run)
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		return undecided(t, s)
	}
	seen := map[string]bool{}
	decide := func(how lease.Resolution) { // twice, like a caller that got no answer
		t.Helper()
		how.CallID = unknown()
		if seen[how.CallID] {
			t.Fatalf("%s names two calls", how.CallID)
		}
		seen[how.CallID] = true
		must(t, lease.Resolve(t.Context(), s, id, how))
		unknown()
		must(t, lease.Resolve(t.Context(), s, id, how))
	}
	decide(lease.Resolution{RunAgain: true, KeyVoided: true})
	if len(keys) != 2 {
		t.Fatalf("the charge has %d keys", len(keys))
	}
	charge := unknown()
	decide(lease.Resolution{RunAgain: true, KeyVoided: true})
	if len(keys) != 3 || mails != 1 {
		t.Fatalf("the charge has %d keys, and %d mails were sent", len(keys), mails)
	}
	for _, how := range []lease.Resolution{{Failure: &once.Failure{Code: "no charge"}}, {CallValue: []byte(`"sent"`)}, {RunAgain: true}} {
		for named := range seen {
			how.CallID = named
			if err := lease.Resolve(t.Context(), s, id, how); store.KindOf(err) != store.KindTaken {
				t.Errorf("%+v: %v", how, err)
			}
		}
	}
	if wantState(t, s, store.StateUnknown); unknown() == charge || len(seen) != 2 {
		t.Errorf("%v", seen)
	}
}

// What is not unknown is not resolved, and a resolution that says nothing or too much changes nothing.
func TestResolveRefuses(t *testing.T) {
	s := memstore.New()
	if err := lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: "x", RunAgain: true}); store.KindOf(err) != store.KindTaken {
		t.Errorf("absent: %v", err)
	}
	_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{}))
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	now := undecided(t, s)
	for name, tt := range map[string]struct {
		how  lease.Resolution
		kind store.Kind
	}{
		"no call":      {lease.Resolution{RunAgain: true}, store.KindMisused},
		"other call":   {lease.Resolution{CallID: "00000000", RunAgain: true}, store.KindTaken},
		"nothing":      {lease.Resolution{CallID: now}, store.KindMisused},
		"two":          {lease.Resolution{CallID: now, RunAgain: true, Failure: &once.Failure{}}, store.KindMisused},
		"no JSON":      {lease.Resolution{CallID: now, Result: []byte("x")}, store.KindMisused},
		"value":        {lease.Resolution{CallID: now, CallValue: []byte("x")}, store.KindMisused},
		"too large":    {lease.Resolution{CallID: now, CallValue: []byte(`"` + strings.Repeat("x", lease.DefaultMaxSaved) + `"`)}, store.KindMisused},
		"no detail":    {lease.Resolution{CallID: now, Failure: &once.Failure{Code: "no", Detail: []byte("<html>")}}, store.KindMisused},
		"voided":       {lease.Resolution{CallID: now, KeyVoided: true, Failure: &once.Failure{}}, store.KindMisused},
		"kept, and on": {lease.Resolution{CallID: now, CallValue: []byte(`1`), Retain: time.Hour}, store.KindMisused},
	} {
		if err := lease.Resolve(t.Context(), s, id, tt.how); store.KindOf(err) != tt.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Advance(1000 * time.Hour) // it never expires
	wantState(t, s, store.StateUnknown)
	if undecided(t, s) != now {
		t.Error("the name of the call has changed")
	}
}

// A Completer whose check does not tell changes nothing about what a person looks up meanwhile.
func TestCheckedCallKeepsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, box := memstore.New(), encrypter(t)
		leased := lease.New(s, lease.Config{TTL: time.Second})
		e := once.New(leased, once.Config{Observer: once.Discard, Encrypter: box})
		check := lease.Check(func(context.Context, string) (string, lease.Finding, error) { return "", lease.Unclear, nil })
		op := op
		op.Request = []byte("r")
		_, err := once.Do(t.Context(), e, op, fails(lease.CallPolicy{Check: check}))
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		named, before := undecided(t, s), wantState(t, s, store.StateUnknown)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- lease.Completer{Store: leased, Encrypter: box, Log: slog.New(slog.DiscardHandler), Handlers: lease.Handlers{"": func(ctx context.Context, op once.Operation) error {
				_, err := once.Do(ctx, e, op, fails(lease.CallPolicy{Check: check}))
				return err
			}}}.Run(ctx)
		}()
		pass(10 * time.Minute)
		if rec := wantState(t, s, store.StateUnknown); rec.Fence < before.Fence+10 {
			t.Fatalf("fence %d after %d: it was not asked", rec.Fence, before.Fence)
		}
		must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: named, CallValue: []byte(`"paid"`)}))
		pass(2 * time.Minute) // it looks again within CheckEvery
		cancel()
		must(t, <-done)
		if rec := wantState(t, s, store.StateDone); string(rec.Result.Body) != `"paid"` {
			t.Errorf("%s", rec.Result.Body)
		}
	})
}

// A call that was made again under the same key, after a decision, is to be decided anew if it is unknown again. The decision of that time
// is not taken for one about it.
func TestMadeAgainIsAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{}))
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		for range 2 {
			again := lease.Resolution{CallID: undecided(t, s), RunAgain: true}
			must(t, lease.Resolve(t.Context(), s, id, again))
			pass(2 * time.Hour)
			_, err = once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{}))
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			must(t, lease.Resolve(t.Context(), s, id, again))
			wantState(t, s, store.StateUnknown)
		}
		must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), CallValue: []byte(`"paid"`)}))
		pass(time.Second)
		if r, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{})); err != nil || r.Value != "paid" {
			t.Errorf("%+v, %v", r, err)
		}
		pass(time.Minute) // heartbeats end
	})
}

// A value that a person has given and that the program does not read as it would have written it is refused: the outcome is unknown
// again, the form is told, and another value can be given.
func TestCallValueOfAnotherForm(t *testing.T) {
	type charge struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"`
	}
	for _, wrong := range []string{`{}`, `{"ID":"ch_1","amount":5}`, `{"id":"ch_1","amount":5,"currency":"EUR"}`, `{"id":"ch_1","amount":"5"}`, `"ch_1"`, `null`} {
		s := memstore.New()
		mails := 0
		run := func(ctx context.Context, r *lease.Run) (charge, error) {
			c, err := lease.Call(ctx, r, "charge", func(context.Context, string) (charge, error) { return charge{}, errDead }, lease.CallPolicy{})
			if err != nil {
				return c, err
			}
			_, err = lease.Call(ctx, r, "mail", func(context.Context, string) (int, error) {
				mails++
				return mails, nil
			}, lease.CallPolicy{})
			return c, err
		}
		_, err := once.Do(t.Context(), node(s), op, run)
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		for range 2 { // the same mistake again is a new decision
			must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), CallValue: []byte(wrong)}))
			_, err = once.Do(t.Context(), node(s), op, run)
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			p, e := lease.ProgressOf(id, wantState(t, s, store.StateUnknown))
			if e != nil || mails != 0 || len(p.Phases) != 0 || p.Call == nil || !strings.Contains(p.Call.Refused, `{"id":"","amount":0}`) || !strings.Contains(err.Error(), p.Call.Refused) {
				t.Fatalf("%s: %+v, %v, %d mails", wrong, p, err, mails)
			}
		}
		must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), CallValue: []byte(`{ "amount":5, "id":"ch_1"}`)}))
		if r, err := once.Do(t.Context(), node(s), op, run); err != nil || r.Value != (charge{"ch_1", 5}) || mails != 1 {
			t.Errorf("%+v, %v, %d mails", r, err, mails)
		}
	}
}

// What led to the end of an operation is there afterwards, without its values: its phases, the call that was not known, who has said so.
func TestProgressIsKept(t *testing.T) {
	s := memstore.New()
	run := func(ctx context.Context, r *lease.Run) (string, error) {
		for _, phase := range []string{"reserve", "charge", "mail"} {
			_, err := lease.Call(ctx, r, phase, func(context.Context, string) (string, error) {
				if phase != "reserve" {
					return "", errDead
				}
				return "a secret", nil
			}, lease.CallPolicy{})
			if f := (*once.Failure)(nil); err != nil && !errors.As(err, &f) {
				return "", err
			}
		}
		return "done", nil
	}
	_, err := once.Do(t.Context(), node(s), op, run)
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), CallValue: []byte(`"by hand"`)}))
	_, err = once.Do(t.Context(), node(s), op, run)
	wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
	must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), Result: []byte(`"sent"`)}))
	rec := wantState(t, s, store.StateDone)
	p, err := lease.ProgressOf(id, rec)
	want := lease.Progress{
		Phases: []lease.Ended{{Phase: "reserve"}, {Phase: "charge", ByHand: true}},
		Call:   &lease.Begun{Phase: "mail", Key: lease.Key(op.Scope, op.Key, "mail", 0)},
	}
	if err != nil || !reflect.DeepEqual(p, want) || strings.Contains(string(rec.Data), "secret") || strings.Contains(string(rec.Data), "by hand\"") {
		t.Errorf("%+v, %v, %s", p, err, rec.Data)
	}
}

// Whatever becomes of the write of a decision, it is written once, and a repetition succeeds.
func TestResolveLost(t *testing.T) {
	for _, how := range []lease.Resolution{{CallValue: []byte(`"paid"`)}, {Result: []byte(`"paid"`)}, {RunAgain: true}, {RunAgain: true, KeyVoided: true}} {
		for _, applied := range []bool{true, false} {
			s := memstore.New()
			_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{}))
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			before := wantState(t, s, store.StateUnknown)
			how.CallID = undecided(t, s)
			must(t, lease.Resolve(t.Context(), &losing{Store: s, applied: applied, left: 1}, id, how))
			if err := lease.Resolve(t.Context(), &losing{Store: s, left: 1}, id, how); err != nil {
				t.Errorf("repeated: %v", err)
			}
			if rec, err := s.Read(t.Context(), id); err != nil || rec.Fence != before.Fence+1 {
				t.Errorf("fence %d after %d, %v", rec.Fence, before.Fence, err)
			}
		}
	}
}

// losing loses the answers to the first writes.
type losing struct {
	*memstore.Store

	applied bool
	left    int
}

func (l *losing) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if l.left--; l.left < 0 {
		return l.Store.Swap(ctx, c)
	}
	if l.applied {
		if rec, err := l.Store.Swap(ctx, c); err != nil {
			return rec, err
		}
	}
	return store.Record{}, &store.Error{Kind: store.KindLost, Err: errDead}
}

// Of people who decide at the same time, one is followed, and the others learn that.
func TestResolveAtTheSameTime(t *testing.T) {
	for range 20 {
		s := memstore.New()
		_, err := once.Do(t.Context(), node(s), op, fails(lease.CallPolicy{}))
		wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
		how := []lease.Resolution{{RunAgain: true}, {RunAgain: true, KeyVoided: true}, {Result: []byte(`"paid"`)}, {CallValue: []byte(`"paid"`)}}
		named := undecided(t, s)
		fence := wantState(t, s, store.StateUnknown).Fence
		errs := make([]error, 2*len(how))
		var all sync.WaitGroup
		for i := range errs { // each decision by two
			how := how[i%len(how)]
			how.CallID = named
			all.Go(func() { errs[i] = lease.Resolve(t.Context(), s, id, how) })
		}
		all.Wait()
		stand := 0
		for i, err := range errs {
			if err == nil {
				stand++
			} else if store.KindOf(err) != store.KindTaken || (errs[(i+len(how))%len(errs)] == nil) {
				t.Errorf("%v", err)
			}
		}
		if rec, err := s.Read(t.Context(), id); stand != 2 || err != nil || rec.Fence != fence+1 {
			t.Errorf("%d of %d stand, fence %d after %d", stand, len(errs), rec.Fence, fence)
		}
	}
}

// What a person has decided is kept as long as the result would have been: a mail that is kept for ever is not sent again.
func TestResolutionIsKept(t *testing.T) {
	const short, long = 100 * time.Hour, 100000 * time.Hour
	for _, tt := range []struct {
		name       string
		of, decide time.Duration // retention of the operation, and what the person says
		eager      bool
		after      time.Duration
		kept       bool
	}{
		{"default", 0, 0, false, short, false},
		{"as the operation", 2 * short, 0, false, short, true},
		{"no longer than the operation", 2 * short, 0, true, 3 * short, false},
		{"for ever, as the operation", once.Forever, 0, true, long, true},
		{"for ever, as decided", 0, once.Forever, false, long, true},
		{"as decided", once.Forever, short / 2, false, short, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, op := memstore.New(), op
			op.Retain = tt.of
			e := once.New(lease.New(s, lease.Config{Eager: tt.eager}), once.Config{Observer: once.Discard})
			_, err := once.Do(t.Context(), e, op, fails(lease.CallPolicy{}))
			wantOutcome(t, err, once.CodeUnknown, once.EffectInDoubt)
			if err := lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), Result: []byte(`"sent"`), Retain: -1}); store.KindOf(err) != store.KindMisused {
				t.Errorf("a negative Retain: %v", err)
			}
			must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), Result: []byte(`"sent"`), Retain: tt.decide}))
			s.Advance(tt.after)
			want := map[bool]store.State{true: store.StateDone, false: store.StateAbsent}[tt.kept]
			wantState(t, s, want)
		})
	}
}

// What an engine without leases has left unknown has no retention: what a person decides about it is kept for ever.
func TestResolutionWithoutRetention(t *testing.T) {
	s := memstore.New()
	_, err := s.Swap(t.Context(), store.Change{ID: id, Next: store.Record{State: store.StateUnknown, Fence: 1}})
	must(t, err)
	must(t, lease.Resolve(t.Context(), s, id, lease.Resolution{CallID: undecided(t, s), Result: []byte(`"paid"`)}))
	s.Advance(100000 * time.Hour)
	wantState(t, s, store.StateDone)
}
