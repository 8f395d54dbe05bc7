package saga

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
)

// startTraces is a tracer that keeps in which trace the sagas were started that a node has found.
type startTraces struct {
	now string // the trace of a start

	mu sync.Mutex
	of map[string]string
}

func (s *startTraces) SagaTrace(context.Context) string { return s.now }

func (s *startTraces) SagaSpan(ctx context.Context, span saga.Span) (context.Context, func(string, error)) {
	if span.Kind == saga.SpanRun && span.Background {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.of[span.ID.Key] = span.Start
	}
	return ctx, func(string, error) {}
}

// TestTakenSagasKeepTheirTrace: each of the sagas that a node takes together has the trace of its own start.
func TestTakenSagasKeepTheirTrace(t *testing.T) {
	testenv.Both(t)
	on(t, takenAreTraced[pgx.Tx], takenAreTraced[*sql.Tx])
}

func takenAreTraced[TX any](t *testing.T, s system[TX]) {
	d := s.definition()
	trace := &startTraces{of: map[string]string{}}
	var taken atomic.Int64
	r := saga.NewRunner(&takes[TX]{Store: s.db, before: func() { taken.Add(1) }}, saga.Config{TTL: patience, Every: 10 * time.Millisecond, Tracer: trace}, d)
	want := map[string]string{}
	for i := range 8 {
		key := fmt.Sprint("order ", i)
		trace.now = fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)
		want[key] = trace.now
		s.startIn(t, r, d, idOf(key))
	}
	stop := runs(t, r)
	for key := range want {
		s.until(t, r, key, saga.StateCompleted)
	}
	stop()
	if !maps.Equal(trace.of, want) {
		t.Errorf("sagas were started in %v, want %v", trace.of, want)
	}
	if n := taken.Load(); n == 0 {
		t.Error("vacuous: no saga was taken with others")
	}
}
