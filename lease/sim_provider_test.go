package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
)

// policy is what a call says of itself, and what its provider does.
type policy int

const (
	none         policy = iota // the provider does not dedupe, and nothing is said
	safeToRepeat               // it dedupes for ever
	dedupedFor                 // it dedupes for some time
	checked                    // it does not dedupe, and can be asked: what it has not seen it then refuses for ever
	askedOnly                  // the same, but it refuses nothing
	dedupedAndChecked
	policies
)

func (p policy) repeats() bool {
	return p == safeToRepeat || p == dedupedFor || p == dedupedAndChecked
}

func (p policy) checks() bool { return p == checked || p == askedOnly || p == dedupedAndChecked }

// simProvider is another service. It is what has really happened.
type simProvider struct {
	sim        *sim
	effects    map[string][]effect // by phase
	tombstones map[string]bool     // by key
	sends      map[string]int      // by key: how often a process has sent it
	requests   map[string]string   // by key: the bytes of the first one
}

// effect is something that the provider has done.
type effect struct {
	key, value string
	of         *attempt
	at         time.Time
}

var errRefusedKey = errors.New("the provider refuses this key")

// arrive is a request that comes to the provider, now or late. The caller has locked the simulation.
func (v *simProvider) arrive(a *attempt, st *step, key string, late bool) (string, error) {
	if v.tombstones[key] {
		v.sim.tellf("%s: %s comes to a tombstone", a.dice.name, st.name)
		v.sim.meet(metTombstone)
		return "", errRefusedKey
	}
	for _, e := range v.effects[st.name] {
		forgotten := st.policy != safeToRepeat && time.Since(e.at) >= keyLife
		if e.key == key && st.policy.repeats() && !forgotten {
			v.sim.meet(metDeduped)
			if late {
				v.sim.meet(metLateDeduped)
			}
			return e.value, nil
		}
	}
	if st.index == v.sim.declined {
		return "", &once.Failure{Code: "declined"}
	}
	e := effect{key: key, value: fmt.Sprintf("%s:%d", st.name, v.sim.next()), of: a, at: time.Now()}
	v.sim.tellf("%s: effect %s", a.dice.name, e.value)
	v.effects[st.name] = append(v.effects[st.name], e)
	if n := len(v.effects[st.name]); n > 1 {
		v.sim.failf("call %s has %d effects", st.name, n)
	}
	return e.value, nil
}

var (
	errTimeout     = errors.New("timeout")
	faultsOfCalls  = []fault{dies, stops, stops, slow, refused, lostUndone, lostApplied, lostApplied, lostLater, lostLater, lostLater, diesAfter, stopsAfter, stopsAfter}
	faultsOfChecks = []fault{dies, stops, slow, refused, lostApplied, diesAfter, stopsAfter}
)

// call is what the function of a call does.
func (v *simProvider) call(ctx context.Context, a *attempt, st *step, key string, request []byte) (string, error) {
	s, p := v.sim, a.process
	if !p.runs() {
		return "", errOver
	}
	f, d := p.fault(ctx, faultsOfCalls)
	switch f {
	case dies:
		p.die()
	case stops:
		p.stop(d)
	case slow:
		sleepIn(s.over, d/4)
	case refused:
		s.meet(metNotSent)
		return "", lease.NotSent(errTimeout)
	}
	if !p.runs() {
		return "", errOver
	}
	v.sent(st, key, string(request))
	arrive := func(late bool) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return v.arrive(a, st, key, late)
	}
	switch f {
	case lostUndone:
		return "", errTimeout
	case lostLater:
		time.AfterFunc(d, func() { _, _ = arrive(true) })
		return "", errTimeout
	}
	value, err := arrive(false)
	switch f {
	case lostApplied:
		value, err = "", errTimeout
	case diesAfter:
		p.die()
	case stopsAfter:
		p.stop(d)
	}
	if !p.runs() {
		return "", errOver
	}
	return value, err
}

// sent judges what a process sends.
func (v *simProvider) sent(st *step, key, request string) {
	s := v.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellf("send %s", st.name)
	if s.intents[st.index] == 0 {
		s.failf("call %s is sent before its intent is stored", st.name)
	}
	if v.sends[key]++; v.sends[key] > 1 && !st.policy.repeats() && !s.resolved {
		s.failf("call %s is sent %d times under one key, and its policy does not say that this is safe", st.name, v.sends[key])
	}
	if first, again := v.requests[key]; again && first != request {
		s.failf("call %s sends %q, and before %q", st.name, request, first)
	}
	v.requests[key] = request
}

// find is what the Check of a call does.
func (v *simProvider) find(ctx context.Context, a *attempt, st *step, key string) (string, lease.Finding, error) {
	s, p := v.sim, a.process
	if !p.runs() {
		return "", lease.Unclear, errOver
	}
	f, d := p.fault(ctx, faultsOfChecks)
	switch f {
	case dies:
		p.die()
	case stops:
		p.stop(d)
	case slow:
		sleepIn(s.over, d/4)
	case refused:
		return "", lease.Voided, errTimeout // with an error it says nothing
	}
	if !p.runs() {
		return "", lease.Unclear, errOver
	}
	value, found := v.look(st, key)
	switch f {
	case lostApplied:
		return "", lease.Unclear, errTimeout
	case diesAfter:
		p.die()
	case stopsAfter:
		p.stop(d)
	}
	if !p.runs() {
		return "", lease.Unclear, errOver
	}
	return value, found, nil
}

func (v *simProvider) look(st *step, key string) (string, lease.Finding) {
	s := v.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range v.effects[st.name] {
		if e.key == key {
			s.meet(metHappened)
			return e.value, lease.Happened
		}
	}
	if st.policy == askedOnly {
		s.meet(metUnclear)
		return "", lease.Unclear
	}
	s.tellf("tombstone for %s", st.name)
	s.meet(metVoided)
	v.tombstones[key] = true
	return "", lease.Voided
}
