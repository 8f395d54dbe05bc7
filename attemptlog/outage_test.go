package attemptlog

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/internal/sql/attempts"
)

// TestObserveNeverWaits: a database that does not answer costs attempts, and nothing
// else. That the rows are missing is a row.
func TestObserveNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		j := &fakeJournal{write: func([]attempts.Attempt) error { <-answer; return nil }}
		l := newLog(j, Config{Batch: 2, Buffer: 5})
		observe(l, 0, 2)
		synctest.Wait() // the writer waits for an answer
		if j.tried() != 1 {
			t.Fatalf("%d writes, want one that hangs", j.tried())
		}
		observe(l, 2, 100) // would deadlock the test
		if n := l.Dropped(); n != 95 {
			t.Errorf("%d dropped, want 95: the buffer has room for 5 of 100", n)
		}
		close(answer)
		synctest.Wait()
		observe(l, 100, 102)
		closed(t, l)
		if got := requests(j.attempts("s", hash)); got != "0 1 2 3 4 100 101" {
			t.Errorf("written: %s", got)
		}
		holes := j.attempts("", "")
		if len(holes) != 1 || holes[0].Outcome != OutcomeDropped || holes[0].Dropped != 95 {
			t.Errorf("%+v", holes)
		}
	})
}

// TestLostAnswer: a batch whose answer was lost is written again, and is there once.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 2
		j := &fakeJournal{after: func() error {
			if lost--; lost >= 0 {
				return errors.New("cut")
			}
			return nil
		}}
		l := newLog(j, Config{Failed: func(error) {}})
		observe(l, 0, 2)
		pass(DefaultInterval)
		observe(l, 2, 3) // the next try takes it along
		pass(3 * DefaultInterval)
		if got := requests(j.attempts("s", hash)); got != "0 1 2" || j.tried() != 3 || lost != -1 {
			t.Errorf("%s after %d writes", got, j.tried())
		}
		closed(t, l)
	})
}

// TestOutageIsTriedOncePerInterval: while the database is down it is tried once in an interval, however much
// is to be written, and one word is said about it.
func TestOutageIsTriedOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		var said atomic.Int32
		j := &fakeJournal{write: func([]attempts.Attempt) error {
			if down.Load() {
				return errors.New("down")
			}
			return nil
		}}
		l := newLog(j, Config{Batch: 2, Interval: time.Second, Failed: func(error) { said.Add(1) }})
		for i := range 10 {
			observe(l, 10*i, 10*(i+1))
			pass(time.Second)
		}
		if j.tried() > 11 || j.tried() < 10 || said.Load() != 1 { // the first batch that was full, and each tick
			t.Errorf("%d tries in 10 intervals, %d words", j.tried(), said.Load())
		}
		if n := len(j.sweeps()); n != 0 {
			t.Errorf("swept %d times, which is one more wait for nothing each", n)
		}
		down.Store(false)
		pass(time.Second)
		if n := len(j.attempts("s", hash)); n != 100 || l.Dropped() != 0 {
			t.Errorf("%d written, %d dropped", n, l.Dropped())
		}
		down.Store(true)
		observe(l, 0, 1)
		pass(time.Second)
		if said.Load() != 2 {
			t.Errorf("%d words about two outages", said.Load())
		}
		err := l.Close(t.Context())
		if err == nil || !strings.Contains(err.Error(), "1 attempts may not have been written to the database when the log was closed: down. Try: ") {
			t.Errorf("%v", err)
		}
	})
}
