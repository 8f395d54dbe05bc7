package oncetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/base/sleep"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// intent is one intent of a client. All requests for it have the same key.
type intent struct {
	key     string
	request any
	other   bool // the request differs from the one that was sent first with the key
}

// answer is the result of a call.
type answer struct {
	final   bool   // a client would not send the request again
	success bool   // the work is done
	kind    string // the same in all answers to intents like this one, such as the HTTP status
	text    string // the same in all final answers to one intent
	none    bool   // the call had no answer within maxCall
}

// unknown is the kind of answer which says that the outcome is unknown, so that a person must find out whether there was an effect.
const unknown = "unknown"

// settings are the fields that all descriptions of a test have.
type settings struct {
	database sqlplane.Database
	counters map[string]func() int
	ignore   []string
	skip     []Fault
}

// suite tests one handler.
type suite struct {
	settings

	tb     testing.TB
	now    testing.TB // the subtest that runs, or tb if none runs
	start  func(p *Process) func(ctx context.Context, in intent) answer
	intend func() intent
	differ func(in intent) (other intent, ok bool) // returns the intent with another request; nil if a handler has no fingerprints
	leased bool                                    // the work of a process that has died must be taken over

	process   *Process // the current one
	call      func(ctx context.Context, in intent) answer
	providers []*Provider
	tables    *[]table        // nil until the tables were read
	expected  effects         // the effects of one request
	kind      string          // the kind of the expected answer
	sums      map[string]bool // the effects that are sums of a column; true if the column is of floating point
	unstable  map[string]bool // sums that differ between two requests without a fault, such as of a column with a random number
	hung      bool            // a call had no answer, so this kind of fault is not tried further
	patience  int             // how many times a request is sent until its key counts as stuck
	takeovers int64
}

const (
	callers   = 8    // how many duplicates are sent at the same time
	maxFaults = 1000 // how many faults of one kind are tried at most
	patience  = 40
	impatient = 6                // the patience after a key was stuck, so that a broken handler is reported soon
	maxCall   = 10 * time.Second // a handler that takes longer probably waits for something that never comes
)

// run runs all subtests of the handler.
func (s *suite) run() {
	s.tb.Helper()
	s.now, s.patience = s.tb, patience
	s.unstable, s.sums = map[string]bool{}, map[string]bool{}
	s.next()
	defer func() { s.process.die() }()
	if !s.learn() {
		return
	}
	s.subtest("duplicate", func() ([]string, string) { return s.duplicate(), "" })
	s.try(FaultConcurrent, s.concurrent)
	if s.differ != nil {
		s.try(FaultMismatch, s.mismatch)
	}
	s.tryEach(FaultStore, "store fails at call %d")
	s.tryEach(FaultStatement, "statement %d is refused")
	s.tryEach(FaultNotSent, "write %d is not sent")
	s.tryEach(FaultNotAnswered, "write %d is not answered")
	s.tryEach(FaultDeath, "dies after write %d")
}

// next starts the next process.
func (s *suite) next() {
	s.process = &Process{suite: s, died: make(chan struct{})}
	s.call = s.start(s.process)
}

// learn finds out the expected answer and effects from three requests without a fault. The effects of the first request do not count, because it may make rows
// that later requests find.
func (s *suite) learn() bool {
	s.tb.Helper()
	var learned [3]effects
	for i := range learned {
		before := s.count()
		a, _ := s.send(s.intend())
		if !a.final {
			s.tb.Errorf("oncetest: the handler fails a request even without an injected fault: answered %s", a.text)
			return false
		}
		s.kind, learned[i] = a.kind, s.since(before)
	}
	s.expected = learned[1]
	for name := range s.sums {
		if !s.expected.equalIn(name, learned[2]) {
			s.unstable[name] = true
			delete(s.expected, name)
			delete(learned[2], name)
		}
	}
	switch {
	case !s.expected.equal(learned[2]):
		s.tb.Errorf("oncetest: two requests without an injected fault have different effects: %v, and %v. Try: Ignore for the tables or columns that differ", s.expected, learned[2])
	case len(s.expected) == 0:
		s.tb.Errorf("oncetest: a request was answered %s, but no effect of it was counted. Try: Store or Database to count rows of tables, Count for other effects", s.kind)
	default:
		return true
	}
	return false
}

// attach adds a provider whose effects count.
func (s *suite) attach(p *Provider) {
	if slices.Contains(s.providers, p) {
		return
	}
	p.mu.Lock()
	p.attached = true
	p.mu.Unlock()
	s.providers = append(s.providers, p)
}

// send sends a request to the current process. died reports whether the process died before it answered.
func (s *suite) send(in intent) (a answer, died bool) {
	if s.process.isDead() {
		s.next()
	}
	p, call := s.process, s.call
	ctx, cancel := context.WithTimeout(s.tb.Context(), maxCall)
	defer cancel()
	done := make(chan answer, 1)
	go func() { done <- call(ctx, in) }()
	select {
	case a = <-done:
	case <-p.died:
	case <-ctx.Done(): // a handler may wait for a lock without watching its context
	}
	switch {
	case p.isDead():
		return answer{}, true
	case !a.final && ctx.Err() != nil:
		return noAnswer("by nothing"), false
	}
	return a, false
}

func noAnswer(text string) answer {
	return answer{none: true, text: fmt.Sprintf("%s in %v", text, maxCall)}
}

// hangs ends a process that does not answer, as an operator would who restarts it.
func (s *suite) hangs() {
	s.hung = true
	s.process.die()
}

// settle sends a request until it has a final answer, or until the patience is used up.
func (s *suite) settle(in intent) (a answer) {
	for try := range s.patience {
		if try > 0 {
			sleep.For(s.tb.Context(), min(time.Millisecond<<try, 50*time.Millisecond))
		}
		if s.process.isDead() {
			s.next()
		}
		if !s.expireLeases() {
			a = noAnswer("the connection pool of the handler has no free connection")
		} else {
			a, _ = s.send(in)
		}
		if a.none {
			s.hangs()
		}
		if a.final || a.none {
			return a
		}
	}
	s.patience = impatient
	return a
}

// expireLeases ends all leases, so that the test need not wait for the lease of a process that has died. ok is false if the pool has no connection.
func (s *suite) expireLeases() (ok bool) {
	ctx, cancel := context.WithTimeout(s.tb.Context(), maxCall)
	defer cancel()
	for _, db := range s.process.databases {
		expire := store.Statement{
			SQL:  dialect.Text(db.Dialect(), "update once_operation set lease_until = AGO(?) where state = 1 and lease_until > NOW"),
			Args: []any{time.Second.Microseconds()},
		}
		if n, err := db.Pool().Exec(ctx, expire); err == nil { // after an error the next try ends the leases
			s.takeovers += n
		}
	}
	return ctx.Err() == nil
}

// judge sends a request until it has a final answer, and returns the faults that it finds. first is the answer to the call that had a fault.
func (s *suite) judge(in intent, first answer, before effects) (wrong []string) {
	a := first
	switch {
	case first.none:
		s.hangs()
	case !first.final:
		a = s.settle(in)
	}
	if !a.final {
		return []string{"never answered: " + a.text}
	}
	if a.kind != s.kind && a.kind != unknown {
		wrong = append(wrong, fmt.Sprintf("the request was answered %s, but without the fault it is answered %s", a.text, s.kind))
	}
	added := s.since(before) // before the duplicate: a client that has its answer sends none, so the effects must be complete now
	if text := s.compare(added, a.kind); text != "" {
		wrong = append(wrong, text)
	}
	if again := s.settle(in); again.text != a.text {
		wrong = append(wrong, fmt.Sprintf("a duplicate of the request was answered %s, but the request itself was answered %s", again.text, a.text))
	}
	if after := s.since(before); !after.equal(added) {
		wrong = append(wrong, fmt.Sprintf("a duplicate of the request has changed the effects: after it %v, before it %v", after, added))
	}
	for _, p := range s.providers {
		wrong = append(wrong, p.complaints()...)
	}
	return wrong
}

// compare returns "" if the effects of a request are right, and otherwise how they differ.
func (s *suite) compare(added effects, kind string) string {
	if kind != unknown {
		if added.equal(s.expected) {
			return ""
		}
		return fmt.Sprintf("the effects are %v, but without the fault they are %v", added, s.expected)
	}
	if !added.within(s.expected) { // an unknown outcome may have no effect, or a part of the effects of one request
		return fmt.Sprintf("the effects are %v, which is more than the effects of one request, %v; the outcome of the request is unknown", added, s.expected)
	}
	return ""
}

// subtest runs a subtest. If tb cannot have subtests, as in a benchmark, the name is in the message.
func (s *suite) subtest(name string, run func() (wrong []string, skipped string)) {
	s.tb.Helper()
	t, ok := s.tb.(*testing.T)
	if !ok {
		if wrong, _ := run(); len(wrong) > 0 {
			s.tb.Errorf("oncetest: %s: %s", name, strings.Join(wrong, "\n\t"))
		}
		return
	}
	t.Run(name, func(t *testing.T) {
		s.now = t
		defer func() { s.now = s.tb }()
		wrong, skipped := run()
		if len(wrong) > 0 {
			t.Errorf("oncetest: %s", strings.Join(wrong, "\n\t"))
		}
		if skipped != "" {
			t.Skip(skipped)
		}
	})
}
