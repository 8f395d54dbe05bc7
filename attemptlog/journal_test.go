package attemptlog_test

import (
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
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// journal stands between a log and its store.
type journal struct {
	*memstore.Store
	write func(list []store.Attempt) error // before the store; nil: not at all
	after func() error                     // after it: a lost answer

	mu    sync.Mutex
	sizes []int // of the batches that were written
	tries int
	swept []int
}

func (j *journal) WriteAttempts(ctx context.Context, list []store.Attempt) error {
	j.mu.Lock()
	j.tries++
	j.mu.Unlock()
	if j.write != nil {
		if err := j.write(list); err != nil {
			return err
		}
	}
	if err := j.Store.WriteAttempts(ctx, list); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sizes = append(j.sizes, len(list))
	if j.after != nil {
		return j.after()
	}
	return nil
}

func (j *journal) SweepAttempts(ctx context.Context, keep time.Duration, limit int) (int, error) {
	n, err := j.Store.SweepAttempts(ctx, keep, limit)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.swept = append(j.swept, n)
	return n, err
}

func (j *journal) tried() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tries
}

func (j *journal) sweeps() []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.swept)
}

func (j *journal) batches() string {
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
		Caller: once.Caller{RequestID: strconv.Itoa(i)}, From: "absent", To: "done", Runs: 1,
	}
}

const hash = "0123456789abcdef"

func observe(l *attemptlog.Log, from, to int) {
	for i := from; i < to; i++ {
		l.Observe(context.Background(), event(i))
	}
}

func closed(t *testing.T, l *attemptlog.Log) {
	t.Helper()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func requests(list []store.Attempt) string {
	var ids []string
	for _, a := range list {
		ids = append(ids, a.RequestID)
	}
	return strings.Join(ids, " ")
}
