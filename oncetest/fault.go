package oncetest

import (
	"fmt"
	"slices"
)

// Fault is a kind of fault that a test causes. In the descriptions of the faults, a write is a call of a database
// driver, a request or a packet that may change something outside of the process.
type Fault string

// These constants are all kinds of faults, in the order in which a test causes the faults.
const (
	FaultConcurrent  Fault = "concurrent"         // the same request is sent eight times at the same time
	FaultMismatch    Fault = "mismatch"           // a different request is sent with the key of an earlier request
	FaultStore       Fault = "store fails"        // a call does not reach the store, the store refuses the call, or the answer to the call is lost; see [Store]
	FaultStatement   Fault = "statement refused"  // the database refuses a statement of the handler, and the connection stays open; see [Store]
	FaultNotSent     Fault = "write not sent"     // a connection breaks before a write; see [Process]
	FaultNotAnswered Fault = "write not answered" // a connection breaks after a write and before the answer to this write
	FaultDeath       Fault = "death"              // the process dies after a write, and another process continues
)

// action says what happens to a write.
type action int

const (
	passes action = iota
	notSent
	notAnswered
	dies
	gone // the process is dead
)

// actions are the faults that strike writes.
var actions = map[Fault]action{FaultNotSent: notSent, FaultNotAnswered: notAnswered, FaultDeath: dies}

// plan is a fault that a test is about to cause.
type plan struct {
	fault  Fault
	nth    int // the number of the call that the fault strikes, from 1
	calls  int // how many such calls there were until now
	struck bool
}

// strikes counts a call, and reports whether the fault strikes it.
func (p *plan) strikes(f Fault) bool {
	if p == nil || p.fault != f {
		return false
	}
	p.calls++
	if p.calls != p.nth {
		return false
	}
	p.struck = true
	return true
}

// duplicate sends a request, and lets judge send it again.
func (s *suite) duplicate() []string {
	before, in := s.count(), s.intend()
	a, _ := s.send(in)
	return s.judge(in, a, before)
}

// concurrent sends one request from many callers at the same time.
func (s *suite) concurrent() (wrong []string) {
	before, in := s.count(), s.intend()
	answers := make(chan answer, callers)
	for range callers {
		go func() {
			a, _ := s.send(in)
			answers <- a
		}()
	}
	first := answer{}
	for range callers {
		a := <-answers
		switch {
		case a.none:
			first = a // an unanswered call counts, whatever the others say
		case !a.final || first.none:
		case !first.final:
			first = a
		case a.text != first.text:
			wrong = append(wrong, fmt.Sprintf("one request was answered %s, and another one %s", first.text, a.text))
		}
	}
	return append(slices.Compact(wrong), s.judge(in, first, before)...)
}

// mismatch sends another request with the key of an earlier request.
func (s *suite) mismatch() []string {
	const try = " Try: Service.Other, or Skip"
	alone, ok := s.differ(s.intend())
	if !ok {
		return []string{"the body has neither a digit nor a letter to change." + try}
	}
	if a := s.settle(alone); !a.success { // otherwise its refusal under a key that is taken would prove nothing
		return []string{"the changed request is refused with a key of its own too: answered " + a.text + "." + try}
	}
	before, in := s.count(), s.intend()
	other, _ := s.differ(in)
	first := s.settle(in)
	switch a, _ := s.send(other); {
	case a.none:
		s.hangs()
		return []string{"a changed request with the key of the first one is never answered: " + a.text}
	case a.success:
		return []string{"a changed request with the key of the first one is answered " + a.text}
	}
	return s.judge(in, first, before)
}

// try runs a fault that has one subtest.
func (s *suite) try(f Fault, run func() []string) {
	if !slices.Contains(s.skip, f) {
		s.subtest(string(f), func() ([]string, string) { return run(), "" })
	}
}

// tryEach runs a fault at the first call that it can strike, then at the second call, and so on, until a request has no such call.
func (s *suite) tryEach(f Fault, format string) {
	s.tb.Helper()
	if slices.Contains(s.skip, f) {
		return
	}
	ran, struck := 0, 0 // the flag -run may leave out subtests
	s.hung = false
	for n, goOn := 1, true; goOn && !s.hung && n <= maxFaults; n++ {
		s.subtest(fmt.Sprintf(format, n), func() (wrong []string, skipped string) {
			ran++
			if wrong, goOn = s.tryOne(f, n); !goOn {
				return nil, "a request has fewer such points"
			}
			struck++
			return wrong, ""
		})
	}
	switch {
	case s.hung: // reported already
	case ran > 0 && struck == 0:
		s.tb.Errorf("oncetest: no fault of the kind %q could be injected. Try: use Store and the methods of Process for every connection of the handler, or leave this kind out with Skip", f)
	case s.leased && f == FaultDeath && struck > 1 && s.takeovers == 0:
		s.tb.Error("oncetest: no lease was taken over after a simulated crash. Try: Do, if the work is a single transaction")
	}
}

// tryOne sends a request, lets the fault strike, and judges the result.
func (s *suite) tryOne(f Fault, nth int) (wrong []string, struck bool) {
	before, in := s.count(), s.intend()
	if s.process.isDead() {
		s.next()
	}
	p := s.process
	armed := p.arm(f, nth)
	a, _ := s.send(in)
	struck, where := p.disarm(armed)
	if f == FaultDeath && struck {
		p.die() // even if the write at which it would have died has no answer
		a = answer{}
	}
	wrong = s.judge(in, a, before)
	if where != "" && len(wrong) > 0 {
		wrong[0] = where + ": " + wrong[0]
	}
	return wrong, struck
}
