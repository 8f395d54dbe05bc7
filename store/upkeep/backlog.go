package upkeep

import (
	"context"
	"time"

	"github.com/oncelib/once/store"
)

// MaxBacklog is how many operations a [Backlogger] counts at most: a count reads them all.
const MaxBacklog = 100_000

// Backlogger counts operations that are unfinished or expired. That is cheap enough for a metric: it reads
// no operation that is done and kept.
type Backlogger interface {
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog counts the operations of a store, except the finished ones that are kept. Each number is at most [MaxBacklog].
type Backlog struct {
	Running Count // under a lease, whether it is over or not; since they were first written
	Waiting Count // for their next owner; since they were first written
	Unknown Count // their outcome cannot be found out; since they were first written
	Expired Count // their retention is over and they are not swept yet; since it was over

	Names map[string]Named // the operations that are not done, by Operation.Name
}

// Named is how many operations of a name are not done.
type Named struct{ Running, Waiting, Unknown int }

// Add counts n operations in a state, the oldest for that long. StateDone counts expired operations.
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

// Count is a number of operations, and how long the oldest of them has been in that state, by the clock of the store.
type Count struct {
	Number int
	Oldest time.Duration // 0 if Number is 0
}

// Pooled counts the connections of its pool. It asks only the pool, so it also answers when no connection is free.
type Pooled interface {
	Connections() Connections
}

// Connections is how many connections a pool has.
type Connections struct {
	InUse, Idle int
	Max         int // 0: the pool has no limit
}
