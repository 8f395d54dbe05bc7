package lease_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

func (s *sim) tellf(format string, args ...any) {
	s.small.Lock()
	defer s.small.Unlock()
	s.story = append(s.story, fmt.Sprintf(format, args...))
}

func (s *sim) failf(format string, args ...any) {
	s.tellf("FAIL: "+format, args...)
	s.t.Errorf("seed %d: "+format, append([]any{s.seed}, args...)...)
}

func (s *sim) meet(what string) { s.met.meet(what) }

func (s *sim) isHealed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healed
}

func (s *sim) isTold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result != ""
}

func (s *sim) takeovers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// next returns another number each time. The simulation is locked.
func (s *sim) next() int {
	s.numbers++
	return s.numbers
}

func (s *sim) effects(st *step) []effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.provider.effects[st.name]
}

// pending is the step behind the recovery point of a record.
func (s *sim) pending(rec store.Record) *step {
	return s.steps[1+slices.IndexFunc(s.steps, func(st *step) bool { return st.name == rec.RecoveryPoint })]
}

// entomb has the provider refuse all keys that it may get for a call.
func (s *sim) entomb(st *step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.provider.sends {
		s.provider.tombstones[key] = len(s.provider.effects[st.name]) == 0 || s.provider.tombstones[key]
	}
}

// write lets a process change the record, and judges the change.
func (s *sim) write(c *store.Change, apply func() (store.Record, error)) (store.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.db.Read(s.over, id)
	if err != nil {
		return before, err
	}
	rec, err := apply()
	switch {
	case err == nil:
		s.applied(before, c)
	case store.KindOf(err) == store.KindTaken && c.Expect.Fence > 0 && !c.Expect.LeaseExpired && string(before.Nonce) != string(c.Next.Nonce):
		s.meet(metRefused)
	}
	return rec, err
}

func (s *sim) applied(before store.Record, c *store.Change) {
	next := &c.Next
	s.tellf("%s %d -> %s %d, behind %q, call %v", before.State, before.Fence, next.State, next.Fence, next.RecoveryPoint, next.CallStarted)
	if next.CallStarted {
		s.intents[s.pending(*next).index]++
	}
	switch {
	case next.State == store.StateUnknown:
		s.meet(metUnknown)
		if s.intents[s.pending(*next).index] == 0 {
			s.failf("unknown, and no call was begun")
		}
	case before.State == store.StateUnknown && next.State == store.StateRunning:
		s.meet(metUnknownTaken)
		if !s.pending(*next).policy.checks() {
			s.failf("unknown work runs again by itself")
		}
	case c.Expect.LeaseExpired:
		if s.lease != simTTL {
			s.failf("a lease of %v was over", s.lease)
		}
		s.taken++
		s.meet(metTakeover)
	case before.State == store.StateWaiting:
		s.meet(metParked)
	}
	s.lease = c.Lease
	for _, r := range s.runs {
		if _, is := s.db.Get(r.value); is && !r.committed {
			r.committed = true
			s.judgePhase(r)
		}
	}
	if next.State == store.StateDone {
		s.judgeAll("the operation is done")
	}
}

// judgePhase judges that the writes of a phase are there.
func (s *sim) judgePhase(r *run) {
	if n := len(s.committed(r.step)); n != 1 {
		s.failf("phase %s is committed %d times", r.step.name, n)
	}
	for _, st := range s.steps[:r.step.index] {
		s.judgeStep(st, "phase "+r.step.name+" is committed")
	}
}

// committed are the runs of a step that are.
func (s *sim) committed(st *step) (list []*run) {
	for _, r := range s.runs {
		if r.step == st && r.committed {
			list = append(list, r)
		}
	}
	return list
}

func (s *sim) judgeAll(then string) {
	for _, st := range s.steps {
		s.judgeStep(st, then)
	}
}

// judgeStep judges that a step has happened once, or never if it is the call that is declined, or behind that.
func (s *sim) judgeStep(st *step, then string) {
	n := len(s.committed(st))
	if st.isCall {
		n = len(s.provider.effects[st.name])
	}
	want := 1
	if st.index >= s.declined {
		want = 0
	}
	if n != want {
		s.failf("%s, and step %s has happened %d times", then, st.name, n)
	}
}

// told judges what a caller is told.
func (s *sim) told(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Err() != nil {
		return
	}
	s.attempts = append(s.attempts, a)
	code := once.CodeOf(a.err)
	s.tellf("%s: is told %q, %s: %v", a.dice.name, a.value, once.EffectOf(a.err), a.err)
	if errors.Is(a.err, errPanicked) { // and is told nothing
		return
	}
	switch code {
	case "":
		s.meet("told: a result")
		s.judgeResult(a)
		return
	case once.CodeInFlight, once.CodeUnavailable, once.CodeConflict, once.CodeFailed:
	case once.CodeUnknown:
		if !slices.ContainsFunc(s.intents, func(n int) bool { return n > 0 }) {
			s.failf("a caller is told %q, and no call was begun", code)
		}
	default:
		s.failf("a caller is told %v", a.err)
	}
	s.meet("told: " + string(code) + ", " + once.EffectOf(a.err).String())
	if a.late && !a.first && once.EffectOf(a.err) != once.EffectNotApplied {
		s.failf("a caller is told %v (%s), and another one was told %q before", a.err, once.EffectOf(a.err), s.result)
	}
}

func (s *sim) judgeResult(a *attempt) {
	if s.result == "" {
		s.result = a.value
	}
	if a.value != s.result {
		s.failf("a caller is told %q, and another one %q", a.value, s.result)
	}
	if s.given {
		return
	}
	s.judgeAll("a caller is told a result")
	if s.declined < len(s.steps) {
		s.meet(metDeclined)
		if a.value != "declined" {
			s.failf("a caller is told %q, and a call was declined", a.value)
		}
		return
	}
	values := strings.Fields(a.value)
	if len(values) != len(s.steps) {
		s.failf("a caller is told %q", a.value)
		return
	}
	for i, st := range s.steps {
		is := ""
		for _, r := range s.committed(st) {
			is = r.value
		}
		for _, e := range s.provider.effects[st.name] {
			is = e.value
		}
		if values[i] != is {
			s.failf("a caller is told %q of step %s, which is %q", values[i], st.name, is)
		}
	}
}

// judgeEnd judges what can be known only in the end: that an attempt which was told that it has applied nothing has not.
func (s *sim) judgeEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.given {
		s.judgeAll("in the end")
	}
	undone := func(a *attempt) bool {
		return slices.Contains(s.attempts, a) && a.err != nil && !errors.Is(a.err, errPanicked) && once.EffectOf(a.err) == once.EffectNotApplied
	}
	for _, r := range s.runs {
		if r.committed && undone(r.of) {
			s.failf("%s was told that nothing was applied (%v), and %s is committed", r.of.dice.name, r.of.err, r.value)
		}
	}
	for _, list := range s.provider.effects {
		for _, e := range list {
			if undone(e.of) {
				s.failf("%s was told that nothing was applied (%v), and %s has happened", e.of.dice.name, e.of.err, e.value)
			}
		}
	}
}
