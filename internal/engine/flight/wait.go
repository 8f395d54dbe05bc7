package flight

import (
	"context"
	"time"

	"github.com/oncelib/once/store"
)

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
