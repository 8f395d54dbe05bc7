package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/dynamostore"
	"github.com/oncelib/once/store/dynamostore/internal/dynamofake"
)

// flow is a way through the engine.
type flow struct {
	name    string
	effects int
	call    func(ctx context.Context, s *dynamostore.Store, cfg once.Config, op once.Operation) (once.Result[string], error)
}

func flows() []flow {
	do := func(handler func(key string) func(context.Context, tx) (string, error), number int) func(context.Context, *dynamostore.Store, once.Config, once.Operation) (once.Result[string], error) {
		return func(ctx context.Context, s *dynamostore.Store, cfg once.Config, op once.Operation) (once.Result[string], error) {
			op.Attempt.Number = max(op.Attempt.Number, number)
			return once.Do(ctx, once.New(s, cfg), op, handler(op.Key))
		}
	}
	return []flow{
		{"do", 1, do(order, 0)},
		{"first attempt", 1, do(order, 1)},
		{"no items", 0, do(func(string) func(context.Context, tx) (string, error) {
			return func(context.Context, tx) (string, error) { return once.NewKey(), nil }
		}, 0)},
		{"failure", 0, do(func(key string) func(context.Context, tx) (string, error) {
			return func(_ context.Context, t tx) (string, error) {
				return "", errors.Join(t.Put(effect(key)), &once.Failure{Code: "declined", Message: once.NewKey()})
			}
		}, 0)},
		{"batch", 1, func(ctx context.Context, s *dynamostore.Store, cfg once.Config, op once.Operation) (once.Result[string], error) {
			return once.DoBatch(ctx, once.New(s, cfg), op, func(b *once.Batch) (string, error) {
				b.ExecRows(1, "item", effect(op.Key))
				return once.NewKey(), nil
			})
		}},
	}
}

// attempts says how often clients send a request.
var attempts = []int{1, 3}

var faults = map[string]dynamofake.Fault{
	"cut before": dynamofake.CutBefore, "cut after": dynamofake.CutAfter, "answer cut": dynamofake.CutAnswer, "fails": dynamofake.Fails,
	"fails after": dynamofake.FailsAfter, "throttled": dynamofake.Throttled, "conflict": dynamofake.Conflict, "later": dynamofake.Later,
}

// plan has the nth request fail, n = 1, 2, ..., and those after it, too, if it is an outage.
type plan struct {
	fault  dynamofake.Fault
	nth    int64
	outage bool
	seen   atomic.Int64
}

func (p *plan) next(string) dynamofake.Fault {
	if n := p.seen.Add(1); n == p.nth || p.outage && n > p.nth {
		return p.fault
	}
	return dynamofake.None
}

// TestEachRequestFails: whatever request fails in whatever way, what the caller is told is true, and the same key ends in one effect.
func TestEachRequestFails(t *testing.T) {
	testenv.Core(t)
	server, _ := newFake(t)
	seen := map[string]int{}
	for _, f := range flows() {
		for name, fault := range faults {
			for _, tries := range attempts {
				for _, outage := range []bool{false, true} {
					for n := int64(1); ; n++ {
						p := &plan{fault: fault, nth: n, outage: outage}
						what := fmt.Sprintf("%s, request %d %s (outage %t), sent %d times", f.name, n, name, outage, tries)
						said := strike(t, server, what, f, p, tries)
						if p.seen.Load() < n {
							break
						}
						seen[said]++
						seen[name]++
					}
				}
			}
		}
	}
	for _, said := range []string{"answered", "not applied", "in doubt"} {
		if seen[said] == 0 {
			t.Errorf("vacuous: no call was %s: %v", said, seen)
		}
	}
}

// strike calls a flow under a plan and judges what is told.
func strike(t *testing.T, server *dynamofake.Server, what string, f flow, p *plan, tries int) (said string) {
	t.Helper()
	ctx := t.Context()
	op := operation(once.NewKey())
	s := dynamostore.New(clientOf(server.URL, tries), "once")
	clean := dynamostore.New(clientOf(server.URL, 1), "once")
	cfg := once.Config{Observer: once.Discard, Settle: time.Minute}
	if p.outage {
		cfg.Settle = 20 * time.Millisecond
	}
	server.SetFault(p.next)
	r, err := f.call(ctx, s, cfg, op)
	server.SetFault(nil)
	told := once.EffectOf(err)
	failure := (*once.Failure)(nil)
	ended := err == nil || errors.As(err, &failure)
	if ended {
		said = "answered"
	} else {
		said = map[once.Effect]string{once.EffectNotApplied: "not applied", once.EffectInDoubt: "in doubt", once.EffectApplied: "applied"}[told]
	}
	server.Release() // what was on its way
	rec, failed := clean.Read(ctx, store.ID{Scope: op.Scope, Key: op.Key})
	applied := rec.State == store.StateDone
	switch {
	case failed != nil:
		t.Fatal(failed)
	case said == "answered" && !applied, said == "applied" && !applied, said == "not applied" && applied:
		t.Errorf("%s: %s, but the record is %s: %v", what, said, rec.State, err)
	}
	effects := map[bool]int{true: f.effects}[applied]
	if n := count(t, clientOf(server.URL, 1), op.Key); n != effects {
		t.Errorf("%s: %s, and %d effects with a record that is %s", what, said, n, rec.State)
	}
	again, err2 := f.call(ctx, clean, once.Config{Observer: once.Discard}, op)
	last, err3 := f.call(ctx, clean, once.Config{Observer: once.Discard}, op)
	if answer(again, err2) != answer(last, err3) || !last.Replayed || ended && answer(r, err) != answer(last, err3) {
		t.Errorf("%s: %s; the answers were %q, %q, %q", what, said, answer(r, err), answer(again, err2), answer(last, err3))
	}
	if n := count(t, clientOf(server.URL, 1), op.Key); n != f.effects {
		t.Errorf("%s: %s, and in the end %d effects", what, said, n)
	}
	return said
}

func answer(r once.Result[string], err error) string {
	if f := (*once.Failure)(nil); errors.As(err, &f) {
		return f.Code + " " + f.Message
	}
	return fmt.Sprint(r.Value, err)
}

// TestEachRequestOfALeaseFails: leased work whose owner fails at any request, or loses it for good, is taken over, calls the
// service under one key and writes its item once.
func TestEachRequestOfALeaseFails(t *testing.T) {
	testenv.Prove(t)
	for name, fault := range faults {
		for _, outage := range []bool{false, true} {
			if outage && fault != dynamofake.CutBefore && fault != dynamofake.CutAfter {
				continue
			}
			t.Run(fmt.Sprintf("%s, outage %t", name, outage), func(t *testing.T) {
				t.Parallel() // a lease settles for some seconds
				for n := int64(1); leased(t, &plan{fault: fault, nth: n, outage: outage}); n++ {
				}
			})
		}
	}
}

// leased has work done under a plan, and taken over. It reports whether the plan was met.
func leased(t *testing.T, p *plan) bool {
	t.Helper()
	server, client := newFake(t)
	key := once.NewKey()
	charged := map[string]bool{}
	work := func(ttl time.Duration) error {
		s := dynamostore.New(clientOf(server.URL, 1), "once")
		e := once.New(lease.New(s, lease.Config{TTL: ttl}), once.Config{Observer: once.Discard})
		_, err := once.Do(t.Context(), e, operation(key), charge(s, key, func(key string) error { charged[key] = true; return nil }))
		return err
	}
	server.SetFault(p.next)
	first := work(time.Second)
	server.SetFault(nil)
	server.Release()
	server.Advance(time.Hour) // the owner is gone, and its lease over
	if err := work(time.Minute); err != nil {
		t.Errorf("request %d: first %v; taken over: %v", p.nth, first, err)
	}
	if got := count(t, client, key); got != 1 || len(charged) != 1 {
		t.Errorf("request %d: %d items and %d charges: %v", p.nth, got, len(charged), first)
	}
	return p.seen.Load() >= p.nth
}
