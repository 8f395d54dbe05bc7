// Package flight combines the duplicates of one process. One caller, the leader, asks the store. The other callers wait for
// its answer, and hold no connection.
package flight

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// Group contains the operations in flight of one process.
type Group struct {
	mu      sync.Mutex
	flights map[store.ID]*Flight
	waiters waiters
}

// NewGroup returns a Group in which at most maxCalls calls wait at the same time. Together they keep at most maxBytes in
// memory.
func NewGroup(maxCalls int, maxBytes int64) *Group {
	return &Group{flights: map[store.ID]*Flight{}, waiters: waiters{maxCalls: maxCalls, maxBytes: maxBytes}}
}

// Flight is one operation in flight. The mutex of the group protects the fields that change.
type Flight struct {
	group        *Group
	running      gate // opened when it is known that the operation runs, in this process or another one
	ended        gate // opened when the leader has ended
	maybe        bool // the operation runs unless it is a replay, which is known only after the COMMIT
	hasFollowers bool
	cached       bool            // the leader has found the record in a cache
	record       *store.Record   // after the end: the record that the leader has found; nil if a follower must ask the store itself
	lost         <-chan struct{} // closed when the store has ended the transaction while the leader still runs; may be nil
	refused      error           // after the end: why the store could not be reached; nil if it was reached
	terms        Terms           // the terms of the leader that was refused
}

// Terms are the requirements of a call for the store. While the store cannot be reached, followers with the same terms share
// the refusal of the leader. Otherwise each follower would ask the store in turn, and wait as long. For example, of ten
// duplicates that wait 300 ms for a connection, the last would be refused after 900 ms, after three requests to the store
// instead of one.
type Terms struct {
	Timeouts  store.Timeouts
	Isolation store.Isolation
}

// Join returns the flight of id, and whether the caller is its leader. A leader must call [Flight.End]. A follower waits with
// [Flight.Wait].
func (g *Group) Join(id store.ID) (f *Flight, leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f = g.flights[id]; f != nil {
		f.hasFollowers = true
		if !isClosed(f.lost) { // otherwise the handler of the leader may still run, but its transaction has ended
			return f, false
		}
	}
	f = &Flight{group: g}
	g.flights[id] = f
	return f, true
}

// End ends the flight of id. The leader defers this call, because a flight that stays after a panic would keep the operation
// in flight for ever. Followers get the record if it is final.
func (f *Flight) End(id store.ID, record store.Record, final bool) {
	g := f.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flights[id] == f { // otherwise its transaction was lost, and another flight has replaced it
		delete(g.flights, id)
	}
	if final && f.hasFollowers {
		copied := record // the copy is allocated only if followers exist
		f.record = &copied
	}
	f.ended.open()
}

// SetRunning says that the operation runs, in this process or another one.
func (f *Flight) SetRunning() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.running.open()
}

// SetMaybeRunning says that the operation runs unless it is a replay. This is so for a batch, which claims with its COMMIT.
func (f *Flight) SetMaybeRunning() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if !f.running.opened {
		f.maybe = true
	}
	f.running.open()
}

// SetCached says that the leader has found the record in a cache.
func (f *Flight) SetCached() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.cached = true
}

// Cached reports whether the leader has found the record in a cache.
func (f *Flight) Cached() bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.cached
}

// SetLost sets the channel that is closed when the leader has lost its transaction.
func (f *Flight) SetLost(lost <-chan struct{}) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.lost = lost
}

// Refuse says that the store could not be reached under these terms. No handler has run.
func (f *Flight) Refuse(err error, terms Terms) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.refused, f.terms = err, terms
}

// channels returns the channels that are closed when the operation runs, when the flight ends, and when it is lost.
func (f *Flight) channels() (running, ended, lost <-chan struct{}) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.running.wait(), f.ended.wait(), f.lost
}

// isRunning reports whether it is known that the operation runs.
func (f *Flight) isRunning() bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.running.opened
}

// gate is a channel that is made only when a follower waits for it, which is rare.
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

// Patience says how long a follower waits.
type Patience struct {
	Bytes  int64     // that the follower keeps in memory while it waits
	Result time.Time // until this time it waits for the result
	Answer time.Time // until this time it waits to learn whether the operation runs at all
	Terms  Terms     // the terms under which it would ask the store itself
}

// End says how the wait of a follower has ended.
type End uint8

const (
	EndAgain    End = iota // the leader has given up or has lost its transaction: the follower must join again
	EndLearnt              // the leader has left a record
	EndRunning             // the operation runs, and the follower stops waiting
	EndUnknown             // it is not known whether the operation runs, and the follower stops waiting
	EndCanceled            // the context has ended before it was known whether the operation runs
	EndRefused             // the store could not be reached, and the follower has the same terms as the leader
	EndFull                // too many calls wait already
)

// batchGrace is how long followers with no Wait still wait for a batch. It is enough for a round trip, but not for the locks
// for which the batch may wait.
const batchGrace = 100 * time.Millisecond

// Wait waits for the leader. The record belongs to EndLearnt. The error belongs to EndRefused, EndFull and EndCanceled.
func (f *Flight) Wait(ctx context.Context, p Patience) (*store.Record, End, error) {
	if err := f.group.enter(p.Bytes); err != nil {
		return nil, EndFull, err
	}
	defer f.group.exit(p.Bytes)
	_, ended, _ := f.channels()
	end := f.wait(ctx, p.Result, p.Answer)
	switch leaderLeft := isClosed(ended); { // also if the leader has ended at the same time as the wait: a record is the better answer
	case leaderLeft && f.record != nil:
		return f.record, EndLearnt, nil
	case leaderLeft && f.refused != nil && f.terms == p.Terms:
		return nil, EndRefused, f.refused
	case leaderLeft:
		return nil, EndAgain, nil
	case end == EndRunning && ctx.Err() != nil && !f.isRunning():
		return nil, EndCanceled, ctx.Err()
	}
	return nil, end, nil
}

// wait waits until result for the end of the leader, and then until answer to learn whether the operation runs. It returns
// the reason for the end of the wait, unless the leader has ended.
func (f *Flight) wait(ctx context.Context, result, answer time.Time) (end End) {
	running, ended, lost := f.channels()
	var timeout <-chan time.Time
	end = EndRunning
	if left := time.Until(result); left > 0 {
		t := time.NewTimer(left)
		defer t.Stop()
		begun := running
		timeout, running = t.C, nil // the start of the operation does not end this wait
		select {
		case <-begun:
			_, _, lost = f.channels() // the leader has a transaction only now
		case <-ended:
		case <-lost:
		case <-timeout:
			return EndRunning
		case <-ctx.Done():
			return EndRunning
		}
	} else { // the leader may have no answer of the store yet, and may wait longer for it than this call
		t := time.NewTimer(max(0, time.Until(answer)))
		defer t.Stop()
		timeout, end = t.C, EndUnknown
	}
	select {
	case <-ended:
	case <-lost:
		return EndAgain
	case <-running:
		if f.maybe {
			t := time.NewTimer(batchGrace)
			defer t.Stop()
			select {
			case <-ended:
			case <-t.C:
			case <-ctx.Done():
			}
		}
		end = EndRunning
	case <-timeout:
	case <-ctx.Done():
		end = EndRunning
	}
	return end
}

// waiters counts the waiting calls, and the bytes that they keep in memory.
type waiters struct {
	maxCalls int
	maxBytes int64
	calls    int
	bytes    int64
}

// enter counts one more waiting call, unless too many calls wait.
func (g *Group) enter(bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &g.waiters
	if w.calls >= w.maxCalls || w.bytes+bytes > w.maxBytes {
		return fmt.Errorf("%d duplicate calls with %d bytes wait in this process already, and at most %d calls (Config.MaxWaiting) with %d bytes (Config.MaxWaitingBytes) may wait. Try: call again a little later", w.calls, w.bytes, w.maxCalls, w.maxBytes)
	}
	w.calls++
	w.bytes += bytes
	return nil
}

// exit reverts enter.
func (g *Group) exit(bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiters.calls--
	g.waiters.bytes -= bytes
}

// Pause waits for the time d as one of the waiting calls. It returns an error if too many calls wait. goesOn is false if ctx
// has ended.
func (g *Group) Pause(ctx context.Context, bytes int64, d time.Duration) (goesOn bool, err error) {
	if err := g.enter(bytes); err != nil {
		return false, err
	}
	defer g.exit(bytes)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true, nil
	case <-ctx.Done():
		return false, nil
	}
}
