package oncetest

// Kind is a kind of what a test does to a handler.
type Kind string

// The kinds, in the order in which they are tried.
const (
	AtOnce           Kind = "at once"           // eight of the same request at the same time
	AnotherBody      Kind = "another body"      // the key of an earlier request, with another one
	StoreFails       Kind = "store fails"       // a call of the store is not reached, is refused, or its answer is lost; see [Store]
	StatementRefused Kind = "statement refused" // the database refuses a statement of the handler, and its connection lives; see [Store]
	WriteNotSent     Kind = "write not sent"    // a connection breaks before a write to it; see [Process]
	WriteNotAnswered Kind = "write unanswered"  // a connection breaks after a write to it, before the answer
	Death            Kind = "death"             // the process dies after a write, and another one goes on
)

// action is what becomes of a write.
type action int

const (
	passes action = iota
	notSent
	notAnswered
	dies
	gone // the process is dead, or the connection broken
)

// strikes are the actions of the kinds that writes have.
var strikes = map[Kind]action{WriteNotSent: notSent, WriteNotAnswered: notAnswered, Death: dies}

// plan is a fault that is armed.
type plan struct {
	kind   Kind
	n      int // of the calls that it could strike, from 1
	count  int
	struck bool
}

// due counts a call of a kind, and reports whether it is struck.
func (p *plan) due(kind Kind) bool {
	if p == nil || p.kind != kind {
		return false
	}
	p.count++
	if p.count != p.n {
		return false
	}
	p.struck = true
	return true
}
