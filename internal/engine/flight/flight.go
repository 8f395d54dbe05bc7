// Package flight coalesces the duplicates of one process: one caller asks the store, the others
// wait for what it learns and hold no connection.
package flight

import (
	"sync"

	"github.com/oncelib/once/store"
)

// Group is the operations that are under way in one process.
type Group struct {
	mu      sync.Mutex
	flights map[store.ID]*Flight
	waiters waiters
}

// NewGroup returns a Group in which at most maxCalls calls wait at the same time, which keep
// at most maxBytes in memory.
func NewGroup(maxCalls int, maxBytes int64) *Group {
	return &Group{flights: map[store.ID]*Flight{}, waiters: waiters{maxCalls: maxCalls, maxBytes: maxBytes}}
}

// Flight is one operation under way. What changes in it is guarded by the group's mutex.
type Flight struct {
	group        *Group
	running      gate // opened when the operation is known to run, here or elsewhere
	ended        gate // opened when the leader has left
	maybe        bool // it runs only if it is no replay, which its COMMIT will tell
	hasFollowers bool
	record       *store.Record   // when ended: what the leader has learnt; nil if a follower must ask for itself
	lost         <-chan struct{} // closed when the store has ended the transaction of a leader that still runs; may be nil
	refused      error           // when ended: why the store could not be reached; nil if it could
	terms        Terms           // of the leader that was refused
}

// Terms are what a call asks the store for. While the store cannot be reached, followers with the
// same terms share the leader's refusal. Otherwise each of them would ask the store, one after
// another, and wait as long: of ten duplicates that wait 300 ms for a connection, the last would be
// refused after 900 ms, and the store asked three times in place of once.
type Terms struct {
	Timeouts  store.Timeouts
	Isolation store.Isolation
}

// Join returns the flight of id and whether the caller leads it. A leader ends its flight with
// [Flight.End], a follower waits with [Flight.Wait].
func (g *Group) Join(id store.ID) (f *Flight, leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f = g.flights[id]; f != nil {
		f.hasFollowers = true
		if !isClosed(f.lost) { // or else the handler may still run, but its transaction is over
			return f, false
		}
	}
	f = &Flight{group: g}
	g.flights[id] = f
	return f, true
}

// End ends the flight of id. The leader defers it: a panic that left the flight behind would
// keep the operation in flight for ever. Followers get the record if it is final.
func (f *Flight) End(id store.ID, record store.Record, final bool) {
	g := f.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flights[id] == f { // or else its transaction was lost, and another flight has taken its place
		delete(g.flights, id)
	}
	if final && f.hasFollowers {
		copied := record // allocated only if there are followers
		f.record = &copied
	}
	f.ended.open()
}

// SetRunning says that the operation runs, here or elsewhere.
func (f *Flight) SetRunning() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.running.open()
}

// SetMaybeRunning says that the operation runs unless it is a replay, as of a batch that claims
// with its COMMIT.
func (f *Flight) SetMaybeRunning() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if !f.running.opened {
		f.maybe = true
	}
	f.running.open()
}

// SetLost says which channel is closed when the leader has lost its transaction.
func (f *Flight) SetLost(lost <-chan struct{}) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.lost = lost
}

// Refuse says that the store could not be reached under these terms, before anything ran.
func (f *Flight) Refuse(err error, terms Terms) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.refused, f.terms = err, terms
}

// channels returns those that tell what happens to the flight.
func (f *Flight) channels() (running, ended, lost <-chan struct{}) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.running.wait(), f.ended.wait(), f.lost
}

// isRunning reports whether the operation is known to run.
func (f *Flight) isRunning() bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.running.opened
}

// gate is a channel that is made when a follower waits for it, which is rare.
type gate struct {
	opened bool
	c      chan struct{} // closed when opened
}

func (g *gate) open() {
	if !g.opened && g.c != nil {
		close(g.c)
	}
	g.opened = true
}

func (g *gate) wait() <-chan struct{} {
	if g.c == nil {
		g.c = make(chan struct{})
		if g.opened {
			close(g.c)
		}
	}
	return g.c
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
