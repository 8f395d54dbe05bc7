package attemptlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/attempts"
)

func TestBatchBySizeAndByInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(fakeJournal)
		l := newLog(j, Config{Batch: 3, Interval: time.Minute})
		began := time.Now()
		observe(l, 0, 7)
		synctest.Wait()
		if got := j.batches(); got != "[3 3]" || time.Since(began) != 0 {
			t.Errorf("full batches: %s after %v, want [3 3] at once", got, time.Since(began))
		}
		pass(time.Minute)
		if got := j.batches(); got != "[3 3 1]" {
			t.Errorf("after an interval %s, want the rest, too", got)
		}
		pass(time.Hour)
		if j.tried() != 3 {
			t.Errorf("%d writes of nothing", j.tried()-3)
		}
		observe(l, 7, 9)
		closed(t, l)
		if got := requests(j.attempts("s", hash)); got != "0 1 2 3 4 5 6 7 8" {
			t.Errorf("%s", got)
		}
	})
}

func TestCloseWritesTheRestAndCountsDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan struct{})
		j := &fakeJournal{write: func([]attempts.Attempt) error { <-written; return nil }}
		l := newLog(j, Config{Batch: 2, Buffer: 9})
		observe(l, 0, 9)
		observe(l, 9, 12) // what is being written has its place until it is written
		close(written)
		closed(t, l)
		closed(t, l)
		if n, holes := len(j.attempts("s", hash)), j.attempts("", ""); n != 9 || len(holes) != 1 || holes[0].Dropped != 3 {
			t.Errorf("%d written, holes %+v", n, holes)
		}
		observe(l, 12, 14)
		if l.Dropped() != 5 {
			t.Errorf("%d dropped, want 3 and 2 after the end", l.Dropped())
		}
	})
}

// TestCloseEnds: also while requests go on.
func TestCloseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Log
		j := new(fakeJournal)
		j.write = func([]attempts.Attempt) error {
			if j.tried() < 100 {
				observe(l, 0, 1)
			}
			return nil
		}
		l = newLog(j, Config{Batch: 2, Buffer: 4, Interval: time.Hour})
		observe(l, 0, 1)
		closed(t, l)
		if n := j.tried(); n != 1 || l.Dropped() != 1 {
			t.Errorf("%d writes, %d dropped", n, l.Dropped())
		}
		if values, err := l.Gauges(t.Context()); err != nil || len(values) != 1 || values[0] != (gauge.Value{Name: gaugename.AttemptLogDropped, Number: 1}) {
			t.Errorf("%v, %v", values, err)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		j := &fakeJournal{write: func([]attempts.Attempt) error { <-answer; return nil }}
		l := newLog(j, Config{Failed: func(error) {}})
		observe(l, 0, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 attempts") {
			t.Errorf("%v", err)
		}
		close(answer)
	})
}

// TestManyAtOnce: every attempt has a row or is counted as dropped, whatever goes on
// at the same time.
func TestManyAtOnce(t *testing.T) {
	turn := 0
	j := &fakeJournal{after: func() error {
		if turn++; turn%3 == 0 {
			return errors.New("lost")
		}
		return nil
	}}
	l := newLog(j, Config{Batch: 7, Buffer: 50, Interval: time.Millisecond, Failed: func(error) {}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() { observe(l, g*1000, (g+1)*1000) })
	}
	wg.Wait()
	if err := l.Close(t.Context()); err != nil && !strings.HasSuffix(err.Error(), "lost. Try: close the log before the database, and give Close a longer context") {
		t.Fatal(err) // the last write may be one whose answer is lost
	}
	list := j.attempts("s", hash)
	seen := map[string]bool{}
	for _, a := range list {
		if seen[a.RequestID] {
			t.Errorf("%s is there twice", a.RequestID)
		}
		seen[a.RequestID] = true
	}
	if n := int64(len(list)) + l.Dropped(); n < 8000-50 || n > 8000 || l.Dropped() == 0 {
		t.Errorf("%d rows and %d dropped of 8000", len(list), l.Dropped())
	}
}

// TestGarbageFromCallersIsMadeStorable: what callers choose cannot make a row that a database refuses, or
// fill the memory.
func TestGarbageFromCallersIsMadeStorable(t *testing.T) {
	var written []attempts.Attempt
	j := &fakeJournal{write: func(list []attempts.Attempt) error { written = append(written, list...); return nil }}
	l := newLog(j, Config{Node: strings.Repeat("n", 9999)})
	e := event(0)
	e.Scope = "a\x00\xff" + strings.Repeat("ä", 9999)
	e.Attempt = once.Attempt{RequestID: "\x1b[2J" + strings.Repeat("x", 9999), CorrelationID: "\u0085"}
	e.Err = state("23505\x00" + strings.Repeat("x", 9999))
	l.Observe(t.Context(), e)
	closed(t, l)
	if len(written) != 1 {
		t.Fatal(written)
	}
	a := written[0]
	for _, s := range []string{a.Scope, a.RequestID, a.CorrelationID, a.Cause, a.Node} {
		if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || utf8.RuneCountInString(s) > keyname.MaxScope {
			t.Errorf("%q", s)
		}
	}
}

type state string

func (s state) Error() string    { return "secret" }
func (s state) SQLState() string { return string(s) }

func TestSweepDeletesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(fakeJournal)
		l := newLog(j, Config{Batch: 8192, Interval: time.Minute, Retain: 24 * time.Hour})
		observe(l, 0, 2500)
		pass(23 * time.Hour)
		observe(l, 2500, 2501)
		pass(2 * time.Hour)
		if got := requests(j.attempts("s", hash)); got != "2500" {
			t.Errorf("%d left", len(j.attempts("s", hash)))
		}
		if got := fmt.Sprint(j.sweeps()); !strings.Contains(got, "1000 1000 500") || len(j.sweeps()) > 30 {
			t.Errorf("swept %s, want batches, once in an hour", got)
		}
		closed(t, l)
	})
	synctest.Test(t, func(t *testing.T) {
		j := new(fakeJournal)
		l := newLog(j, Config{Interval: time.Hour, Retain: -1})
		observe(l, 0, 1)
		pass(1000 * 24 * time.Hour)
		closed(t, l)
		if len(j.attempts("s", hash)) != 1 || len(j.sweeps()) != 0 {
			t.Errorf("a log that is kept for ever was swept %v", j.sweeps())
		}
	})
}

func TestInvalidConfig(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	newLog(new(fakeJournal), Config{Batch: -1})
}
