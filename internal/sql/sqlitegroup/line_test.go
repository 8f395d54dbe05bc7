package sqlitegroup

// The tests with databases are in integration/sqlstore: "make test-of DIR=internal/sql/sqlitegroup" runs them after these.

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLineKeepsItsOrder: each follows the one before at once, also if others have left meanwhile.
func TestLineKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{busyTimeout: time.Hour}
		if err := l.wait(t.Context(), time.Hour, false); err != nil {
			t.Fatal(err)
		}
		leaves, leave := context.WithCancel(t.Context())
		var served []int
		for i := range 20 {
			ctx := t.Context()
			if i%5 == 2 {
				ctx = leaves
			}
			go func() {
				err := l.wait(ctx, time.Hour, false)
				if gone := i%5 == 2; gone != errors.Is(err, context.Canceled) {
					t.Errorf("%d: %v", i, err)
				}
				if err == nil {
					served = append(served, i)
					l.next()
				}
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		began := time.Now()
		l.next()
		synctest.Wait()
		want := []int{0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 19}
		if !slices.Equal(served, want) || time.Since(began) != 0 || l.taken {
			t.Errorf("%v were served in %v, want %v at once; taken: %t", served, time.Since(began), want, l.taken)
		}
	})
}

// TestLineHasPatience: no waiter waits for longer than it said.
func TestLineHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{busyTimeout: time.Hour}
		_ = l.wait(t.Context(), time.Hour, false)
		began := time.Now()
		if err := l.wait(t.Context(), time.Second, false); err == nil || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		l.next()
		if err := l.wait(t.Context(), 0, false); err != nil {
			t.Error("the turn is free:", err)
		}
	})
}

// TestLineLosesNoTurn: also if a context ends in the moment in which it becomes its turn.
func TestLineLosesNoTurn(t *testing.T) {
	l := line{busyTimeout: time.Hour}
	var inside, served, left atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 500 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(100))*time.Microsecond)
				if err := l.wait(ctx, time.Minute, false); err == nil {
					if inside.Add(1) != 1 {
						t.Error("two have the turn")
					}
					for range rand.N(200) { // as long as those behind have patience
						runtime.Gosched() // on one processor too, others come and give up
					}
					inside.Add(-1)
					served.Add(1)
					l.next()
				} else {
					left.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if served.Load() == 0 || left.Load() == 0 {
		t.Errorf("vacuous: %d were served, %d have left", served.Load(), left.Load())
	}
	if err := l.wait(t.Context(), time.Minute, false); err != nil {
		t.Error("afterwards:", err)
	}
}

// TestLineLeavesTheFileAlone: to other processes, however many wait, also between groups.
func TestLineLeavesTheFileAlone(t *testing.T) {
	const patience = 5 * time.Second
	t.Run("transactions", func(t *testing.T) {
		l := &line{busyTimeout: patience}
		leavesTheFileAlone(t, l, l.next)
	})
	t.Run("groups", func(t *testing.T) {
		l := &line{busyTimeout: patience}
		leavesTheFileAlone(t, l, (&groups{line: l}).next)
	})
}

func leavesTheFileAlone(t *testing.T, l *line, next func()) {
	synctest.Test(t, func(t *testing.T) {
		var pauses []time.Duration
		var last time.Time
		began := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for time.Since(began) < time.Minute {
					_ = l.wait(t.Context(), l.busyTimeout, false)
					if free := time.Since(last); !last.IsZero() && free > 0 {
						pauses = append(pauses, free)
					}
					<-time.After(time.Millisecond)
					last = time.Now()
					next()
				}
			})
		}
		all.Wait()
		var sum time.Duration
		long := 0
		for _, p := range pauses {
			sum += p
			if p >= 100*time.Millisecond { // the longest that SQLite sleeps
				long++
			}
		}
		if long < 20 || len(pauses) < 900 || sum > 6*time.Second {
			t.Errorf("in a minute %d pauses, %d of them long, %v in all", len(pauses), long, sum)
		}
	})
}
