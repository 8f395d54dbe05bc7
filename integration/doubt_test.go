package integration

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/oncelib/once"
)

// doubts counts commits whose answer was lost, and what became of them.
type doubts struct{ lost, applied, nothing, rerun atomic.Int64 }

// Observe implements [once.Observer].
func (d *doubts) Observe(_ context.Context, e once.Event) {
	switch {
	case e.Type == once.EventInDoubt:
		d.lost.Add(1)
	case e.Type == once.EventSettled && e.Err == nil:
		d.applied.Add(1)
	case e.Type == once.EventSettled:
		d.nothing.Add(1)
	case e.Type == once.EventRerun:
		d.rerun.Add(1)
	}
}

func (d *doubts) String() string {
	return fmt.Sprintf("%d answers to COMMIT lost: %d applied, %d not applied, %d left in doubt; %d reruns",
		d.lost.Load(), d.applied.Load(), d.nothing.Load(), d.lost.Load()-d.applied.Load()-d.nothing.Load(), d.rerun.Load())
}

// vacuous says whether one of the two was not met.
func (d *doubts) vacuous() error {
	if d.applied.Load() == 0 || d.nothing.Load() == 0 {
		return fmt.Errorf("both lost-and-applied and lost-and-not-applied must be met: %v", d)
	}
	return nil
}
