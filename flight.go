package once

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// flights coalesces the duplicates of one process. The first caller of an
// operation leads: it alone asks the store, waits for a holder elsewhere, and
// executes. The others wait for its verdict and hold no connection.
type flights struct {
	mu    sync.Mutex
	m     map[store.ID]*flight
	spare *flight // one that nobody has followed, for the next leader

	crowd crowd // of those who wait
}

// crowd counts the calls that wait for another one, and what they keep in memory.
type crowd struct {
	maxCalls int
	maxBytes int64
	calls    int
	bytes    int64
}

// enter counts one more call that waits, unless there are too many.
func (f *flights) enter(bytes int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.crowd
	if c.calls >= c.maxCalls || c.bytes+bytes > c.maxBytes {
		return fmt.Errorf("%d duplicates with %d bytes wait in this process already, at most %d (Config.MaxWaiting) with %d bytes (Config.MaxWaitingBytes) may. Try: again a little later", c.calls, c.bytes, c.maxCalls, c.maxBytes)
	}
	c.calls++
	c.bytes += bytes
	return nil
}

// exit ends what enter has begun.
func (f *flights) exit(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crowd.calls--
	f.crowd.bytes -= bytes
}

// flight is one operation under way. What changes in it is guarded by the flights' mutex.
type flight struct {
	all       *flights
	runs      gate // opened when the operation is known to run, here or elsewhere
	ended     gate // opened when the leader has left
	maybe     bool // as runs was opened: it runs only if it is no replay, which its commit will tell
	followers bool
	record    *store.Record   // when ended: what the leader has learnt; nil if a follower must ask for itself
	lost      <-chan struct{} // closed when the store has ended the transaction of a leader who still runs; may be nil
	refusal   refusal         // when ended: why the store could not be asked, if that was not the leader's own doing
}

// refusal is that the store was not reached, before anything ran. It is that of the
// followers, too, if they would have asked for the same: one after another they would wait
// as long in vain.
type refusal struct {
	err       error // nil: none
	timeouts  store.Timeouts
	isolation store.Isolation
}

// gate is a channel that is made when somebody waits: hardly ever.
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

// join returns the flight of id and whether the caller leads it.
func (f *flights) join(id store.ID) (fl *flight, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl = f.m[id]; fl != nil {
		fl.followers = true
		if !closed(fl.lost) {
			return fl, false
		}
	}
	if fl = f.spare; fl == nil {
		fl = &flight{all: f}
	}
	f.m[id], f.spare = fl, nil
	return fl, true
}

// leave ends a flight. It is deferred by the leader: a panic that left the flight behind
// would keep the operation in flight for ever. Record is what the leader has learnt, if
// it has.
func (f *flights) leave(id store.ID, fl *flight, record store.Record, learnt bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m[id] == fl { // or else it was lost, and another one has taken its place
		delete(f.m, id)
	}
	if !fl.followers {
		*fl = flight{all: f}
		f.spare = fl
		return
	}
	if learnt {
		copied := record // allocated only for those who read it
		fl.record = &copied
	}
	fl.ended.open()
}

// running says that the operation runs.
func (fl *flight) running() {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	fl.runs.open()
}

// mayBeLost says what is closed when the leader has lost its transaction.
func (fl *flight) mayBeLost(lost <-chan struct{}) {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	fl.lost = lost
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// refused is the refusal of a flight that has ended.
func (fl *flight) refused() refusal {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	if !fl.ended.opened {
		return refusal{}
	}
	return fl.refusal
}

// runsNow reports whether somebody has said so.
func (fl *flight) runsNow() bool {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	return fl.runs.opened
}

// gates returns the channels of the events.
func (fl *flight) gates() (runs, ended, lost <-chan struct{}) {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	return fl.runs.wait(), fl.ended.wait(), fl.lost
}

// maybeRunning is running for a batch.
func (fl *flight) maybeRunning() {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	if !fl.runs.opened {
		fl.maybe = true
	}
	fl.runs.open()
}

// grace is how long followers who do not want to wait do so for the verdict on a batch:
// a round trip, and not the locks that it may be waiting for.
const grace = 100 * time.Millisecond

// following is how the wait of a follower has ended.
type following uint8

const (
	followAgain   following = iota // the leader gave up or has lost its transaction: join again
	followLearnt                   // the leader has a record
	followRunning                  // the operation runs, and the caller waits no longer
	followSilent                   // it is not known whether it runs, and the caller waits no longer
)

// wait waits for the leader: until then for its end, and then until patience is over for
// whether the operation runs.
func (fl *flight) wait(ctx context.Context, until, patience time.Time) (record *store.Record, end following) {
	runs, ended, lost := fl.gates()
	var timeout <-chan time.Time
	end = followRunning
	if left := time.Until(until); left > 0 { // waits for the end, not only for the verdict that it runs
		t := time.NewTimer(left)
		defer t.Stop()
		begun := runs
		timeout, runs = t.C, nil
		select {
		case <-begun: // it has a transaction only now
			_, _, lost = fl.gates()
		case <-ended:
		case <-lost:
		case <-timeout:
			return nil, followRunning
		case <-ctx.Done():
			return nil, followRunning
		}
	} else { // the leader may have had no answer, and more patience than this one
		t := time.NewTimer(max(0, time.Until(patience)))
		defer t.Stop()
		timeout, end = t.C, followSilent
	}
	select {
	case <-ended:
	case <-lost:
		return nil, followAgain
	case <-runs:
		if fl.maybe {
			t := time.NewTimer(grace)
			defer t.Stop()
			select {
			case <-ended:
			case <-t.C:
			case <-ctx.Done():
			}
		}
		end = followRunning
	case <-timeout:
	case <-ctx.Done():
		end = followRunning
	}
	select {
	case <-ended: // it may have ended as well; its record is the better answer
		if fl.record != nil {
			return fl.record, followLearnt
		}
		return nil, followAgain
	default:
		return nil, end
	}
}
