package sqlitegroup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/store"
)

// line is a FIFO lock for the writers of a file. With SQLite's own lock, each writer would check repeatedly, with growing pauses,
// whether the file is free.
type line struct {
	busyTimeout time.Duration // the longest wait of a writer

	mu    sync.Mutex
	taken bool // it is the turn of a writer
	queue []*turn

	// These are the ends of the last short pause and of the last long pause, in which other processes could get the file.
	short, long time.Time
}

// turn is a place in the line.
type turn struct {
	alone   bool // the writer must not become a member of a group
	granted chan struct{}
}

// wait waits for a turn, at most for patience. If the error is nil, the caller must call [line.next] at the end of the turn.
func (l *line) wait(ctx context.Context, patience time.Duration, alone bool) error {
	l.mu.Lock()
	if l.takeLocked() {
		l.mu.Unlock()
		return nil
	}
	t := &turn{alone, make(chan struct{})}
	l.queue = append(l.queue, t)
	l.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = &store.Error{Kind: store.KindBusy, Err: fmt.Errorf("other transactions have held the write lock of the SQLite file for %v. Try: shorter handlers, or a longer busy_timeout", patience)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A place that is not in the queue any more was granted, and this turn must not be lost.
	if i := slices.Index(l.queue, t); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		return err
	}
	return nil // the turn was granted at the same moment
}

// take takes the turn if no writer has it.
func (l *line) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeLocked()
}

// takeLocked does the same as take. The caller holds the lock.
func (l *line) takeLocked() bool {
	if l.taken {
		return false
	}
	l.taken = true
	l.short = time.Now()
	l.long = l.short
	return true
}

// waiting reports whether a writer waits for its turn.
func (l *line) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// While the writers of one process follow each other, another process hardly ever finds the file free. So the line sometimes
// pauses. A short pause is enough for a process that checks every pollEvery. Once in half of busy_timeout, a long pause is
// longer than the sleep of SQLite's own wait. Without it, a process that waits as SQLite itself does may never get the file.
const (
	shortEvery = 50 * time.Millisecond
	shortPause = 2 * pollEvery
	longPause  = 110 * time.Millisecond
)

// next ends a turn, and gives the next turn to the writer that has waited longest.
func (l *line) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave()
}

// leave gives the turn away when no transaction is open, sometimes after a pause. The caller holds the lock.
func (l *line) leave() {
	if len(l.queue) == 0 {
		l.pass()
		return
	}
	var pause time.Duration
	switch now := time.Now(); {
	case now.Sub(l.long) > l.busyTimeout/2:
		pause = min(longPause, l.busyTimeout/20)
		l.long, l.short = now.Add(pause), now.Add(pause)
	case now.Sub(l.short) > shortEvery:
		pause = shortPause
		l.short = now.Add(pause)
	default:
		l.pass()
		return
	}
	time.AfterFunc(pause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pass()
	})
}

// pass gives the turn away at once. The caller holds the lock.
func (l *line) pass() {
	if len(l.queue) == 0 {
		l.taken = false
		return
	}
	close(l.queue[0].granted)
	l.queue = slices.Delete(l.queue, 0, 1)
}
