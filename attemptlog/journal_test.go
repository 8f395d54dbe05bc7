package attemptlog

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/attempts"
)

// fakeJournal keeps attempts in memory, and fails as it is told.
type fakeJournal struct {
	write func(list []attempts.Attempt) error // before they are kept; nil: nothing
	after func() error                        // after that: a lost answer

	mu    sync.Mutex
	kept  map[[16]byte]attempts.Attempt
	sizes []int // of the batches that were written
	tries int
	swept []int
}

func (j *fakeJournal) Write(_ context.Context, list []attempts.Attempt) error {
	j.mu.Lock()
	j.tries++
	j.mu.Unlock()
	if j.write != nil {
		if err := j.write(list); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.kept == nil {
		j.kept = map[[16]byte]attempts.Attempt{}
	}
	for _, a := range list {
		if _, exists := j.kept[a.ID]; !exists {
			j.kept[a.ID] = a
		}
	}
	j.sizes = append(j.sizes, len(list))
	if j.after != nil {
		return j.after()
	}
	return nil
}

func (j *fakeJournal) Sweep(_ context.Context, keep time.Duration, limit int) (n int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := time.Now().Add(-keep)
	for id, a := range j.kept {
		if n < limit && a.Ended.Before(before) {
			delete(j.kept, id)
			n++
		}
	}
	j.swept = append(j.swept, n)
	return n, nil
}

// attempts returns the attempts at an operation, the oldest first.
func (j *fakeJournal) attempts(scope, keyHash string) (list []attempts.Attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range j.kept {
		if a.Scope == scope && a.KeyHash == keyHash {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b attempts.Attempt) int {
		return cmp.Or(a.Ended.Compare(b.Ended), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list
}

func (j *fakeJournal) tried() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tries
}

func (j *fakeJournal) sweeps() []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.swept)
}

func (j *fakeJournal) batches() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return fmt.Sprint(j.sizes)
}

// pass lets time pass, in a bubble, and whatever is then to be done be done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// event is the end of call i.
func event(i int) once.Event {
	return once.Event{
		Type: once.EventFinished, Outcome: once.OutcomeExecuted, Effect: once.EffectApplied, Scope: "s", KeyHash: hash,
		Attempt: once.Attempt{RequestID: strconv.Itoa(i)}, From: "absent", To: "done", Runs: 1,
	}
}

const hash = "0123456789abcdef"

func observe(l *Log, from, to int) {
	for i := from; i < to; i++ {
		l.Observe(context.Background(), event(i))
	}
}

func closed(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func requests(list []attempts.Attempt) string {
	var ids []string
	for _, a := range list {
		ids = append(ids, a.RequestID)
	}
	return strings.Join(ids, " ")
}
