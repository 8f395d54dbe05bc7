package attemptlog

import (
	"context"
	"time"

	"github.com/oncelib/once/internal/sql/attempts"
)

// run writes and sweeps until the log is closed. While the database is down, run tries once in each interval: the signal that a batch is full
// comes only once as long as the queue is not written.
func (l *Log) run(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.cfg.Interval)
	defer tick.Stop()
	batch := make([]attempts.Attempt, 0, l.cfg.Batch)
	for {
		select {
		case <-l.full:
			l.write(ctx, batch, l.cfg.Batch)
		case <-tick.C:
			l.write(ctx, batch, 1)
			l.sweep(ctx)
		case <-l.quit:
			l.write(ctx, batch, 1)
			return
		}
	}
}

// write writes batches until fewer than least attempts are left, or a batch fails.
func (l *Log) write(ctx context.Context, batch []attempts.Attempt, least int) {
	for {
		l.mu.Lock()
		if l.queue.n < least {
			l.mu.Unlock()
			return
		}
		batch = l.queue.peek(batch[:0])
		l.mu.Unlock()
		// Here and not in Observe, so that no request pays for it.
		for i := range batch {
			clean(&batch[i])
		}
		before := l.failing
		if l.failing = bounded(ctx, func(ctx context.Context) error { return l.journal.Write(ctx, batch) }); l.failing != nil {
			// Only the first failure of an outage is reported.
			if before == nil {
				l.cfg.Failed(l.failing)
			}
			return
		}
		l.written(len(batch))
	}
}

// written removes the first n attempts from the queue. If attempts were dropped because the queue was full, written adds a row that counts them,
// before the attempts that come after them.
func (l *Log) written(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.drop(n)
	if l.dropped > l.told {
		l.push(&attempts.Attempt{Outcome: OutcomeDropped, Dropped: l.dropped - l.told, Node: l.cfg.Node})
		l.told = l.dropped
	}
}

// Every node deletes old rows from the table, in batches of sweepBatch rows.
const (
	sweepEvery = time.Hour
	sweepBatch = 1000
	sweepTurns = 10 // the most batches in one tick
)

// sweep deletes rows that are too old. If rows are left after its turns, the next tick continues.
func (l *Log) sweep(ctx context.Context) {
	if l.cfg.Retain < 0 || l.failing != nil || time.Now().Before(l.sweepAt) {
		return
	}
	for range sweepTurns {
		n := 0
		err := bounded(ctx, func(ctx context.Context) (err error) {
			n, err = l.journal.Sweep(ctx, l.cfg.Retain, sweepBatch)
			return err
		})
		if err != nil {
			l.cfg.Failed(err)
		}
		if err != nil || n < sweepBatch {
			l.sweepAt = time.Now().Add(sweepEvery)
			return
		}
	}
}

// bounded calls do with the time limit of one statement.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return do(ctx)
}
