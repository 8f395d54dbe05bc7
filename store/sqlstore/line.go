package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// line has those who write to a file of SQLite's follow each other, in the order in which
// they have come. SQLite itself would have each of them look again and again, ever more
// seldom, whether the file is free.
type line struct {
	mu    sync.Mutex
	taken bool // somebody has the turn
	queue []*turn

	// Since when the file has been kept from other processes without a pause, a short
	// and a long one.
	short, long time.Time
}

type turn struct {
	alone   bool
	granted chan struct{}
}

// wait waits for the turn, no longer than patience. Without an error, [line.next] must
// be called when it is over.
func (l *line) wait(ctx context.Context, patience time.Duration, alone bool) error {
	l.mu.Lock()
	if !l.taken {
		l.taken = true
		l.short = time.Now()
		l.long = l.short
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
		err = fmt.Errorf("others have held the file for %v. Try: shorter handlers, or a longer busy_timeout", patience)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, t); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		return err
	}
	return nil // it has become its turn in this very moment
}

// waits reports whether somebody does.
func (l *line) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// While those of one process follow each other, another one hardly ever finds the file
// free. So they leave it alone now and then: shortly, for who looks every pollEvery, and,
// once in half of the patience that all have, for longer than SQLite's own wait sleeps.
const (
	shortEvery = 50 * time.Millisecond
	shortPause = 2 * pollEvery
	longPause  = 110 * time.Millisecond
)

// next ends a turn, and gives it to who has waited longest.
func (l *line) next(patience time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.pass()
		return
	}
	var pause time.Duration
	switch now := time.Now(); {
	case now.Sub(l.long) > patience/2:
		pause = min(longPause, patience/20)
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

// pass gives the turn away. The lock is held.
func (l *line) pass() {
	if len(l.queue) == 0 {
		l.taken = false
		return
	}
	close(l.queue[0].granted)
	l.queue = slices.Delete(l.queue, 0, 1)
}
