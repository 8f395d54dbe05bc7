// Package flight coalesces the duplicates of one process: one caller asks the store, the others
// wait for its answer and hold no connection.
package flight

import (
	"context"
	"fmt"
	"sync"
	"time"

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

// Flight is one operation under way. The group's mutex guards the fields that change.
type Flight struct {
	group        *Group
	running      gate // opened when the operation is known to run, here or elsewhere
	ended        gate // opened when the leader has left
	maybe        bool // it runs only if it is no replay, which is known after its COMMIT
	hasFollowers bool
	cached       bool            // what the leader has learnt was in a cache
	record       *store.Record   // when ended: what the leader has learnt; nil if a follower must ask for itself
	lost         <-chan struct{} // closed when the store has ended the transaction of a leader that still runs; may be nil
	refused      error           // when ended: why the store could not be reached; nil if it could
	terms        Terms           // of the leader that was refused
}

// Terms are a call's demands on the store. While the store cannot be reached, followers with the
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

// SetCached says that what the leader has learnt was in a cache.
func (f *Flight) SetCached() {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.cached = true
}

// Cached reports whether it was.
func (f *Flight) Cached() bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.cached
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

// channels returns the channels that are closed when the flight runs, ends or is lost.
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

// Patience is how a follower waits.
type Patience struct {
	Bytes  int64     // that it keeps in memory meanwhile
	Result time.Time // until when it waits for the result
	Answer time.Time // until when it then waits to learn whether the operation runs at all
	Terms  Terms     // under which it would ask the store itself
}

// End is how the wait of a follower has ended.
type End uint8

const (
	EndAgain    End = iota // the leader gave up or has lost its transaction: join again
	EndLearnt              // the leader has left a record
	EndRunning             // the operation runs, and the follower waits no longer
	EndUnknown             // it is not known whether the operation runs, and the follower waits no longer
	EndCanceled            // the context has ended before it was known whether the operation runs
	EndRefused             // the store could not be reached, under the same terms as the follower's
	EndFull                // too many calls wait already
)

// batchGrace is how long followers that do not want to wait do so for a batch: a round trip,
// and not the locks that the batch may be waiting for.
const batchGrace = 100 * time.Millisecond

// Wait waits for the leader. The record belongs to EndLearnt; the error to EndRefused, EndFull and
// EndCanceled.
func (f *Flight) Wait(ctx context.Context, p Patience) (*store.Record, End, error) {
	if err := f.group.enter(p.Bytes); err != nil {
		return nil, EndFull, err
	}
	defer f.group.exit(p.Bytes)
	_, ended, _ := f.channels()
	end := f.wait(ctx, p.Result, p.Answer)
	switch leaderLeft := isClosed(ended); { // perhaps while the wait ended: a record is the better answer
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

// wait waits until result for the end of the leader, and then until answer for whether the
// operation runs. It returns why it waits no longer, unless the leader has left.
func (f *Flight) wait(ctx context.Context, result, answer time.Time) (end End) {
	running, ended, lost := f.channels()
	var timeout <-chan time.Time
	end = EndRunning
	if left := time.Until(result); left > 0 {
		t := time.NewTimer(left)
		defer t.Stop()
		begun := running
		timeout, running = t.C, nil // that it runs does not end this wait
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
	} else { // the leader may have had no answer yet, and may wait for it longer than this call would
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

// waiters counts the calls that wait for another one, and what they keep in memory.
type waiters struct {
	maxCalls int
	maxBytes int64
	calls    int
	bytes    int64
}

// enter counts one more call that waits, unless there are too many.
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

// exit ends what enter has begun.
func (g *Group) exit(bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiters.calls--
	g.waiters.bytes -= bytes
}

// Pause waits for d as one of the calls that wait, and keeps bytes in memory. It returns an
// error if too many wait already, and reports whether ctx goes on.
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
