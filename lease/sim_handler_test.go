package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// step is a phase of the handler.
type step struct {
	name   string
	index  int
	isCall bool
	policy policy // of a call
}

// attempt is one call of once.Do.
type attempt struct {
	process *simProcess
	dice    *dice
	late    bool // it began when another one had been told the result
	first   bool // it has not looked whether that was so

	value string
	err   error
}

// run is one run of the function of a phase.
type run struct {
	step      *step
	of        *attempt
	value     string // and the key of what it writes
	committed bool
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

var (
	errHandler  = errors.New("the handler fails")
	errPanicked = errors.New("the handler panics")
)

// do is what a caller does, or a Completer.
func (s *sim) do(ctx context.Context, p *simProcess, op once.Operation, d *dice) *attempt {
	a := &attempt{process: p, dice: d.child(), late: s.isTold(), first: op.Attempt.Number == 1}
	s.tellf("%s: asks", a.dice.name)
	ctx = context.WithValue(ctx, attemptKey{}, a)
	func() {
		defer func() {
			if r := recover(); r != nil {
				if r != any(errPanicked) {
					panic(r)
				}
				a.err = errPanicked
			}
		}()
		r, err := once.Do(ctx, p.engine, op, a.handle)
		if f := (*once.Failure)(nil); errors.As(err, &f) { // it is the result
			r.Value, err = f.Code, nil
		}
		a.value, a.err = r.Value, err
	}()
	s.told(a)
	return a
}

// handle is the handler. Its value says what all its phases have returned.
func (a *attempt) handle(ctx context.Context, r *lease.Run) (string, error) {
	var values []string
	for _, st := range a.process.sim.steps {
		if a.fails() {
			if a.dice.n(2) == 0 {
				panic(errPanicked)
			}
			return "", errHandler
		}
		do := a.inTx
		if st.isCall {
			do = a.call
		}
		v, err := do(ctx, r, st)
		for err != nil && errors.Is(err, lease.ErrUnknown) && a.fails() {
			v, err = do(ctx, r, st)
		}
		switch {
		case errors.Is(err, lease.ErrUnknown) && a.dice.n(4) == 0: // the handler goes on, which it must not
			a.process.sim.tellf("%s: %s: swallowed: %v", a.dice.name, st.name, err)
			values = append(values, st.name+":swallowed")
			continue
		case err != nil:
			a.process.sim.tellf("%s: %s: %v", a.dice.name, st.name, err)
			return "", err
		}
		values = append(values, v)
	}
	return strings.Join(values, " "), nil
}

func (a *attempt) fails() bool { return !a.process.sim.isHealed() && a.dice.strikes() }

func (a *attempt) inTx(ctx context.Context, r *lease.Run, st *step) (string, error) {
	s := a.process.sim
	return lease.InTx(ctx, r, a.process, st.name, func(_ context.Context, tx *memstore.Tx) (string, error) {
		w := s.begins(a, st)
		if err := tx.Put(w.value, ""); err != nil {
			return "", err
		}
		if a.fails() {
			if a.dice.n(2) == 0 {
				return "", errHandler
			}
			return "", simulated(store.KindRetry)
		}
		return w.value, nil
	})
}

func (s *sim) begins(a *attempt, st *step) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &run{step: st, of: a, value: fmt.Sprintf("%s:%d", st.name, s.next())}
	s.runs = append(s.runs, w)
	return w
}

func (a *attempt) call(ctx context.Context, r *lease.Run, st *step) (string, error) {
	v := a.process.sim.provider
	find := lease.Check(func(ctx context.Context, key string) (string, lease.Finding, error) { return v.find(ctx, a, st, key) })
	var policy lease.CallPolicy
	switch st.policy {
	case safeToRepeat:
		policy.SafeToRepeat = true
	case dedupedFor, dedupedAndChecked:
		policy.DedupedFor = keyLife
	}
	if st.policy.checks() {
		policy.Check = find
	}
	return lease.CallWith(ctx, r, st.name, []byte(a.dice.name), func(ctx context.Context, key string, request []byte) (string, error) {
		return v.call(ctx, a, st, key, request)
	}, policy)
}
