package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/storetest"
)

// nth is two phases with a call between them, and what they have done.
type nth struct {
	t       *testing.T
	db      *memstore.Store
	policy  lease.CallPolicy
	dedupes bool
	batches bool // phases are declared

	runs       int
	calls      int
	effects    map[string]string // by key
	tombstones map[string]bool
}

// nthPolicies are the kinds of calls, by what is said of them.
var nthPolicies = []string{"nothing is said", "deduped", "checked"}

func newNth(t *testing.T, policy string) *nth {
	w := &nth{t: t, db: memstore.New(), effects: map[string]string{}, tombstones: map[string]bool{}}
	policy, w.batches = strings.CutSuffix(policy, ", phases are batches")
	switch policy {
	case "deduped":
		w.policy, w.dedupes = lease.CallPolicy{DedupedFor: time.Hour}, true
	case "checked":
		w.policy = lease.CallPolicy{Check: lease.Check(func(_ context.Context, key string) (string, lease.Finding, error) {
			if v, is := w.effects[key]; is {
				return v, lease.Happened, nil
			}
			w.tombstones[key] = true
			return "", lease.Voided, nil
		})}
	}
	return w
}

// do executes the operation on a store that may fail. before is called before the call is answered.
func (w *nth) do(s store.Store[*memstore.Tx], before func()) (string, error) {
	write := func(phase string) func(context.Context, *memstore.Tx) (string, error) {
		return func(_ context.Context, tx *memstore.Tx) (string, error) {
			w.runs++
			value := fmt.Sprint(phase, w.runs)
			return value, tx.Put(value, "")
		}
	}
	r, err := once.Do(w.t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		phase := func(name string) (string, error) {
			if !w.batches {
				return lease.InTx(ctx, r, s, name, write(name))
			}
			return lease.InBatch(ctx, r, name, func(b *once.Batch) (string, error) {
				w.runs++
				value := fmt.Sprint(name, w.runs)
				b.Exec("put", value, "")
				return value, nil
			})
		}
		a, err := phase("a")
		if err != nil {
			return "", err
		}
		paid, err := lease.Call(ctx, r, "charge", func(_ context.Context, key string) (string, error) {
			w.calls++
			before()
			return w.charge(key)
		}, w.policy)
		if err != nil {
			return "", err
		}
		b, err := phase("b")
		return a + paid + b, err
	})
	return r.Value, err
}

func (w *nth) charge(key string) (string, error) {
	if w.tombstones[key] {
		return "", errors.New("the key is void")
	}
	if v, is := w.effects[key]; is && w.dedupes {
		return v, nil
	}
	if len(w.effects) > 0 {
		w.t.Errorf("a second effect")
	}
	w.effects[key] = fmt.Sprint("paid", w.calls)
	return w.effects[key], nil
}

// committed counts the runs of a phase that are.
func (w *nth) committed(phase string) (n int) {
	for i := range w.runs {
		if _, is := w.db.Get(fmt.Sprint(phase, i+1)); is {
			n++
		}
	}
	return n
}

// judge judges what is there when a caller was told value or err.
func (w *nth) judge(who, value string, err error) {
	a, b, paid := w.committed("a"), w.committed("b"), len(w.effects)
	switch {
	case a > 1 || b > 1 || b > a || b > paid:
	case err == nil && (a != 1 || b != 1 || paid != 1):
	case once.EffectOf(err) == once.EffectApplied && a+b+paid != 3:
	case once.CodeOf(err) == once.CodeUnknown && a == 0:
	default:
		return
	}
	w.t.Errorf("%s is told %q, %v (%s), and there are %d, %d, and %d effects", who, value, err, once.EffectOf(err), a, b, paid)
}

// ends has callers come again, and judges how it ends.
func (w *nth) ends(policy, told string) {
	<-time.After(10 * time.Minute) // the lease is over
	for range 2 {
		value, err := w.do(w.db, func() {})
		w.judge("the next one", value, err)
		switch {
		case told != "" && value != told:
			w.t.Errorf("the first one was told %q, the next one is told %q, %v", told, value, err)
		case err == nil:
		case once.CodeOf(err) != once.CodeUnknown || policy != nthPolicies[0] || w.calls > 1:
			w.t.Errorf("the next one is told %v, after %d calls", err, w.calls)
		}
	}
}

// scenario is what one caller does while the store fails.
type scenario struct {
	name  string
	least int // points
	do    func(t *testing.T, plan storetest.Plan) (hits []storetest.Point)
}

// scenarios are a first caller, and the one who takes over what another one has left in its call.
func scenarios() (list []scenario) {
	for _, policy := range slices.Concat(nthPolicies, []string{"deduped, phases are batches"}) {
		for _, left := range []string{"", ", left before the call", ", left behind the call"} {
			sc := scenario{name: policy + left, least: 20}
			if strings.HasSuffix(policy, "batches") { // a call of the store less for each phase
				sc.least = 15
			}
			if left != "" && policy == nthPolicies[0] { // it only learns that the outcome is unknown
				sc.least = 5
			}
			sc.do = func(t *testing.T, plan storetest.Plan) []storetest.Point {
				w := newNth(t, policy)
				if left != "" {
					w.leave(left == ", left behind the call")
				}
				faults := storetest.NewFaults[*memstore.Tx](w.db)
				faults.Arm(plan)
				value, err := w.do(faults, func() {})
				hits := faults.Heal()
				w.judge("the caller", value, err)
				if left == "" && once.EffectOf(err) == once.EffectNotApplied && w.committed("a")+len(w.effects) > 0 {
					t.Errorf("the caller is told %v (%s)", err, once.EffectOf(err))
				}
				w.ends(policy, value)
				return hits
			}
			list = append(list, sc)
		}
	}
	return list
}

// walk has the n-th call of the store fail, for n from 1 until nothing fails any more, and then the next-th call after it.
func (sc scenario) walk(t *testing.T, next ...int) (points int) {
	for n := 1; !t.Failed(); n++ {
		var hits []storetest.Point
		synctest.Test(t, func(t *testing.T) {
			hits = sc.do(t, storetest.Plan{Nth: append([]int{n}, next...)})
			if t.Failed() {
				t.Logf("with %q failing", hits)
			}
			<-time.After(10 * time.Minute) // heartbeats end
		})
		if len(hits) == 0 {
			return n - 1
		}
	}
	return 0
}

// Each call of the store fails, one after another: what the caller is told is true, and the next one brings the operation to its end.
func TestEveryPointFails(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			points := sc.walk(t)
			if points < sc.least && !t.Failed() {
				t.Errorf("vacuous: %d points", points)
			}
			testenv.Reportf(t, "%d points", points)
		})
	}
}

// The same with each two of them.
func TestEveryTwoPointsFail(t *testing.T) {
	testenv.Prove(t)
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			points, pairs := sc.walk(t), 0
			for next := 1; next <= points && !t.Failed(); next++ {
				pairs += sc.walk(t, next)
			}
			testenv.Reportf(t, "%d pairs", pairs)
		})
	}
}

// leave leaves the operation in its call, as an owner does that dies there.
func (w *nth) leave(sent bool) {
	owner := &mortal{Store: w.db}
	defer func() {
		if r := recover(); r != any(errDead) {
			w.t.Errorf("the owner has not died: %v", r)
		}
		<-time.After(10 * time.Minute) // its lease is over
	}()
	_, err := w.do(owner, func() {
		if sent {
			_, _ = w.charge(lease.Key(op.Scope, op.Key, "charge", 0))
		}
		owner.dead = true
		panic(errDead)
	})
	w.t.Errorf("the owner was told %v", err)
}

// mortal is the store of a process that dies: it reaches it no more.
type mortal struct {
	*memstore.Store

	dead bool
}

func (m *mortal) Unwrap() any { return m.Store }

func (m *mortal) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if m.dead {
		return store.Record{}, &store.Error{Kind: store.KindUnavailable, Err: errDead}
	}
	return m.Store.Swap(ctx, c)
}
