package upkeep

import (
	"context"
	"time"

	"github.com/oncelib/once/store"
)

// MaxBacklog is the highest number that a [Backlogger] returns. A [Backlogger] stops counting at MaxBacklog,
// because a count reads each operation.
const MaxBacklog = 100_000

// Backlogger counts operations that are unfinished or expired. The count is cheap enough for a metric, because
// Backlog does not read operations that are done and not expired.
type Backlogger interface {
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog is a count of the operations of a store that are unfinished or expired. Each number in a Backlog is
// at most [MaxBacklog].
type Backlog struct {
	Running Count // operations under a lease, whether the lease is over or not; Oldest counts from the first write of the operation
	Waiting Count // operations that wait for their next owner; Oldest counts from the first write of the operation
	Unknown Count // operations whose outcome cannot be found out automatically; Oldest counts from the first write of the operation
	Expired Count // operations whose retention is over and whose rows are not deleted yet; Oldest counts from the end of the retention

	Names map[string]Named // the numbers of operations that are not done, for each Operation.Name
}

// Named contains the numbers of unfinished operations with the same name: one number for each state.
type Named struct{ Running, Waiting, Unknown int }

// Add adds n operations of a state and a name to b. The oldest of the n operations has been in the given state
// for the time oldest. If state is StateDone, the n operations are expired.
func (b *Backlog) Add(state store.State, name string, n int, oldest time.Duration) {
	named := b.Names[name]
	count := &b.Expired
	switch state {
	case store.StateRunning:
		count = &b.Running
		named.Running += n
	case store.StateWaiting:
		count = &b.Waiting
		named.Waiting += n
	case store.StateUnknown:
		count = &b.Unknown
		named.Unknown += n
	case store.StateAbsent, store.StateDone:
	}
	count.Number, count.Oldest = min(count.Number+n, MaxBacklog), max(count.Oldest, oldest)
	if named == (Named{}) {
		return
	}
	if b.Names == nil {
		b.Names = make(map[string]Named)
	}
	b.Names[name] = named
}

// Count contains a number of operations, and how long the oldest of these operations has been in its state, by
// the clock of the store.
type Count struct {
	Number int
	Oldest time.Duration // 0 if Number is 0
}

// Pooled is a store that reports the connections of its pool. The store reads only the counters of the pool, so
// it also reports connections when no connection is free.
type Pooled interface {
	Connections() Connections
}

// Connections contains the numbers of connections of a pool.
type Connections struct {
	InUse, Idle int
	Max         int // 0 means that the pool has no limit
}
