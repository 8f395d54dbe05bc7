package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
	"github.com/oncelib/once/retry"
)

// service is the called service.
type service struct {
	*Scenario
	*clock

	random *rand.Rand
	turns  *fairqueue.Queue // sheds load; nil if every request is queued
	keyed  bool             // a retry does not repeat the work of an earlier attempt

	busy  int
	queue []*request
	head  int

	replays int // running requests that are answered from the record, and need no turn
}

// request is an attempt as the service sees it.
type request struct {
	*intent

	gone   bool                             // the client does not wait any more
	answer func(retry.Class, time.Duration) // class good means success
}

// inFlightAfter is the Retry-After of a 409 of oncehttp.
const inFlightAfter = time.Second

// good is the class of a success.
const good = retry.Class(255)

func (s *service) wrong() bool { return s.now >= s.From && s.now < s.To }

// work executes a request, answers it, and then calls over.
func (s *service) work(r *request, over func()) {
	took := time.Duration(s.random.ExpFloat64() * float64(s.Service))
	if s.wrong() && s.Slower > 0 {
		took = time.Duration(float64(took) * s.Slower)
	}
	answer := func() { r.answer(good, 0) }
	switch {
	case s.keyed && r.executed: // a look-up finds the result
		took /= 5
	case s.keyed && r.executing: // oncehttp answers that the first request is still running
		took /= 5
		answer = func() { r.answer(retry.ClassInFlight, inFlightAfter) }
	default:
		if s.wrong() && r.stuck {
			took += s.Hang
		}
		r.executing = true
		answer = func() {
			r.executing, r.executed = false, true
			r.answer(good, 0)
		}
	}
	s.after(took, func() {
		answer()
		over()
	})
}

// ask accepts a request whose client waits for at most budget.
func (s *service) ask(r *request, budget time.Duration) {
	switch {
	case s.Fails > 0 && s.random.Float64() < s.Fails:
		if !s.silent {
			s.after(ms, func() { r.answer(retry.ClassUnknown, 0) })
		}
	case s.Down && s.wrong():
		class, after := s.refused, time.Duration(0)
		switch class {
		case retry.ClassUnknown:
			class = retry.ClassTransient
		case retry.ClassInFlight, retry.ClassRateLimited:
			after = inFlightAfter
		}
		s.after(ms, func() { r.answer(class, after) })
	case s.turns != nil:
		s.admit(r, budget)
	case s.busy < s.Workers:
		s.serve(r)
	default:
		s.queue = append(s.queue, r)
	}
}

func (s *service) serve(r *request) {
	s.busy++
	s.work(r, func() {
		s.busy--
		if next := s.next(); next != nil {
			s.serve(next)
		}
	})
}

// next removes the first request from the queue, and returns it.
func (s *service) next() *request {
	for s.head < len(s.queue) {
		r := s.queue[s.head]
		s.queue[s.head] = nil
		if s.head++; !r.gone || !s.notices {
			return r
		}
	}
	s.queue, s.head = s.queue[:0], 0
	return nil
}

// admit treats a request as package limit does.
func (s *service) admit(r *request, budget time.Duration) {
	if ticket, ok := s.turns.Enter(s.now, ""); ok {
		s.run(r, ticket)
		return
	}
	if s.keyed && r.executed && s.replays < max(1, s.Workers/4) {
		s.replays++
		s.work(r, func() { s.replays-- })
		return
	}
	w := new(fairqueue.Waiter)
	w.Call = func(refused fairqueue.Refusal) {
		if refused.Why == fairqueue.Admitted {
			s.run(r, w.Ticket)
		} else {
			s.refuse(r, refused)
		}
	}
	if refused := s.turns.Wait(s.now, "", budget, w); refused.Why != fairqueue.Admitted {
		s.refuse(r, refused)
		return
	}
	s.after(min(s.turns.Config.Wait, budget), func() {
		if refused, waits := s.turns.Quit(s.now, w); waits {
			s.refuse(r, refused)
		}
	})
}

func (s *service) run(r *request, ticket fairqueue.Ticket) {
	s.work(r, func() { s.turns.Leave(s.now, ticket, !r.gone) })
}

// refuse answers as package limit does: its Retry-After is in full seconds.
func (s *service) refuse(r *request, refused fairqueue.Refusal) {
	after := (refused.After + time.Second - 1).Truncate(time.Second)
	r.answer(retry.ClassThrottled, max(after, time.Second))
}

// waiting returns how many requests wait in the service.
func (s *service) waiting() int {
	if s.turns != nil {
		return s.turns.Waiting()
	}
	return len(s.queue) - s.head
}
