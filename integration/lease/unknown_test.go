package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
)

// TestUnknownOutcomeNeedsResolve: a process is killed in a call to a service that does not dedupe, and nothing is said about the call. The outcome is unknown
// to all callers, nothing calls again by itself, and only Resolve ends that.
func TestUnknownOutcomeNeedsResolve(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, false)
		successor := program{db: o.mustOpen(t), url: service.URL, by: "successor", ttl: patience}
		defer successor.db.close()
		for _, tt := range []struct {
			plan
			effects int // when it is unknown
			void    bool
			how     lease.Resolution
		}{
			{plan{Named: "request", At: 1}, 0, false, lease.Resolution{RunAgain: true}},
			{plan{Named: "request", At: 2}, 0, true, lease.Resolution{RunAgain: true, KeyVoided: true}},
			{plan{Named: "answered", At: 1}, 1, false, lease.Resolution{Result: []byte(`"by hand"`)}},
			{plan{Fate: late, FatePhase: "charge"}, 0, true, lease.Resolution{RunAgain: true, KeyVoided: true}},
			{plan{Fate: killedBefore, FatePhase: "notify"}, 1, false, lease.Resolution{Result: []byte(`"by hand"`)}},
			{plan{Fate: killedAfter, FatePhase: "charge"}, 1, false, lease.Resolution{CallValue: []byte(`""`)}},
			{plan{Fate: killedAfter, FatePhase: "charge"}, 1, false, lease.Resolution{Failure: &once.Failure{Code: "declined"}}},
		} {
			p := tt.plan
			p.Opening, p.URL, p.Kind = o, service.URL, byName
			says := fmt.Sprint(p.Named, p.At, p.Fate)
			p = p.killed(t, says)
			phase := p.FatePhase
			if phase == "" {
				phase = map[int64]string{1: "charge", 2: "notify"}[p.At]
			}
			harness.Until(t, func() error { // what was on its way has arrived
				if _, effects := service.of(p.Key, phase); len(effects[lease.Key(scope, p.Key, phase, 0)]) != tt.effects {
					return fmt.Errorf("%s: %q", says, effects)
				}
				return nil
			})
			requests, _ := service.of(p.Key, phase)
			successor.wantUnknown(t, p.Key, says)
			if now, _ := service.of(p.Key, phase); len(now) != len(requests) {
				t.Errorf("%s: it was called again by itself: %+v", says, now)
			}
			if tt.void {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, service.URL+"/void", nil)
				must(t, err)
				r.Header.Set(keyHeader, lease.Key(scope, p.Key, phase, 0))
				if _, err := successor.send(r); !errors.Is(err, errRefused) {
					t.Fatalf("%s: there is no tombstone: %v", says, err)
				}
			}
			if tt.how.CallValue != nil { // what the person has found at the service
				_, effects := service.of(p.Key, phase)
				value, err := json.Marshal(effects[lease.Key(scope, p.Key, phase, 0)][0])
				must(t, err)
				tt.how.CallValue = value
			}
			tt.how.CallID = "0"
			if err := lease.Resolve(t.Context(), successor.db.ops, idOf(p.Key), tt.how); store.KindOf(err) != store.KindTaken {
				t.Errorf("%s: another call is resolved: %v", says, err)
			}
			tt.how.CallID = undecided(t, successor.db.ops, idOf(p.Key))
			for range 2 { // who has got no answer repeats it
				must(t, lease.Resolve(t.Context(), successor.db.ops, idOf(p.Key), tt.how))
			}
			successor.wantResolved(t, service, p.Key, phase, says, tt.how)
			must(t, lease.Resolve(t.Context(), successor.db.ops, idOf(p.Key), tt.how))
		}
	})
}

// undecided is what names the call of an operation that is unknown.
func undecided(t *testing.T, ops store.Operations, id store.ID) string {
	t.Helper()
	rec, err := ops.Read(t.Context(), id)
	must(t, err)
	p, err := lease.ProgressOf(id, rec)
	must(t, err)
	return p.CallID
}

// wantUnknown checks that the outcome of an operation is unknown and stays so, whether callers ask or a Completer looks.
func (p program) wantUnknown(t *testing.T, key, says string) {
	t.Helper()
	asking := p
	asking.ran = func() { t.Errorf("%s: the handler runs", says) }
	ask := func() {
		harness.Until(t, func() error {
			_, err := asking.do(t.Context(), operation(key))
			if once.CodeOf(err) == once.CodeInFlight { // until its lease is over
				return err
			}
			if once.CodeOf(err) != once.CodeUnknown || once.EffectOf(err) != once.EffectInDoubt {
				t.Errorf("%s: %q, %s (%v), want unknown", says, once.CodeOf(err), once.EffectOf(err), err)
			}
			return nil
		})
	}
	ask()
	var resumed atomic.Bool
	stop := p.complete(t, func(k string, _ error) {
		if k == key {
			resumed.Store(true)
		}
	})
	marker := "marker of " + key // what a Completer finishes: then it has also seen the other one
	_, err := p.parked(t.Context(), marker)
	if once.EffectOf(err) != once.EffectInDoubt {
		t.Errorf("%v", err)
	}
	harness.Until(t, func() error {
		if state := p.state(t, marker); state != store.StateDone {
			return fmt.Errorf("the Completer does not finish %s: it is %s", marker, state)
		}
		return nil
	})
	stop()
	ask()
	if state := p.state(t, key); state != store.StateUnknown || resumed.Load() {
		t.Errorf("%s: it is %s, resumed: %v", says, state, resumed.Load())
	}
}

var errParked = errors.New("the handler fails")

// parked executes the first phase of an operation, and fails.
func (p program) parked(ctx context.Context, key string) (once.Result[string], error) {
	e, _ := p.engine()
	return once.Do(ctx, e, operation(key), func(ctx context.Context, r *lease.Run) (string, error) {
		if _, err := p.write(ctx, r, key, "reserve", "reserved by "+p.by); err != nil {
			return "", err
		}
		return "", errParked
	})
}

// wantResolved checks what a resolution has made of an operation.
func (p program) wantResolved(t *testing.T, service *provider, key, phase, says string, how lease.Resolution) {
	t.Helper()
	if how.RunAgain || how.CallValue != nil {
		p.insist(t, key)
		var voided []string
		if how.KeyVoided {
			voided = append(voided, phase)
		}
		p.wantDone(t, service, key, says, voided...)
		return
	}
	p.ran = func() { t.Errorf("%s: the handler runs", says) }
	r, err := p.do(t.Context(), operation(key))
	if f := (*once.Failure)(nil); how.Failure != nil && (!errors.As(err, &f) || f.Code != how.Failure.Code) || how.Failure == nil && (err != nil || r.Value != "by hand") {
		t.Errorf("%s: %+v, %v", says, r, err)
	}
	if requests, effects := service.of(key, phase); len(requests) != 1 || len(effects[requests[0].key]) != 1 {
		t.Errorf("%s: it was called again: %+v %q", says, requests, effects)
	}
	if rows := p.rows(t, key); len(rows["reserve"]) != 1 {
		t.Errorf("%s: the first phase has written %q", says, rows["reserve"])
	}
}

// TestCheckedCallHasOneEffect: a process is killed in a call to a service that does not dedupe, and can be made to refuse a key. The next process asks:
// what has taken effect is used, and otherwise the key is voided and the call made under another one. There is one effect, also if the
// request of the dead process arrives later.
func TestCheckedCallHasOneEffect(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, false)
		successor := program{db: o.mustOpen(t), url: service.URL, by: "successor", policy: tombstone, ttl: patience}
		defer successor.db.close()
		for _, phase := range []string{"charge", "notify"} {
			for fate, voided := range map[string][]string{killedAfter: nil, late: {phase}} {
				p := plan{Opening: o, URL: service.URL, Policy: tombstone, Fate: fate, FatePhase: phase}
				p = p.killed(t, phase+", "+fate)
				successor.insist(t, p.Key)
				successor.wantDone(t, service, p.Key, p.Key, voided...)
			}
		}
	})
}
