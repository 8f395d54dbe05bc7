package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

type spanKey struct{}

// diary is a Tracer that notes how spans end, and in what they are.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) SagaTrace(ctx context.Context) string {
	trace, _ := ctx.Value(spanKey{}).(string)
	return trace
}

func (d *diary) SagaSpan(ctx context.Context, s saga.Span) (_ context.Context, end func(string, error)) {
	name := string(s.Kind) + " " + s.Step
	if s.Kind == saga.SpanRun {
		name = fmt.Sprintf("run, begun in %s, background %t", s.Start, s.Background)
	}
	in, _ := ctx.Value(spanKey{}).(string)
	return context.WithValue(ctx, spanKey{}, name), func(how string, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		line := name + ": " + how
		if err != nil {
			line += ", " + err.Error()
		}
		if s.Kind != saga.SpanRun && (in == "" || in == "the caller") || s.Saga != "test" || s.ID != sagaID {
			line += " (not in a run)"
		}
		d.lines = append(d.lines, line)
	}
}

// in notes that code of the user runs, and in which span.
func (d *diary) in(ctx context.Context, want string) {
	if got := ctx.Value(spanKey{}); got != want {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lines = append(d.lines, fmt.Sprintf("code of %q runs in %q", want, got))
	}
}

func (d *diary) want(g fixture, lines ...string) {
	g.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, lines) {
		g.Errorf("spans:\n%q\nwant\n%q", d.lines, lines)
	}
}

// sagaOf is a saga whose call fails once and is then found, and whose last step says no; its undo fails once.
func (d *diary) sagaOf() *saga.Definition[string, string] {
	down, stays := errors.New("timeout"), errors.New("down")
	first := func(err *error) error { // and none after that
		now := *err
		*err = nil
		return now
	}
	reserve := saga.Tx("reserve", func(ctx context.Context, _ *memstore.Tx, in string) (string, error) {
		d.in(ctx, "step reserve")
		return in, nil
	}).
		Undo(func(ctx context.Context, _ *memstore.Tx, _, _ string) error { d.in(ctx, "undo reserve"); return nil })
	charge := saga.Call("charge", func(ctx context.Context, _, in string) (string, error) {
		d.in(ctx, "step charge")
		return in, first(&down)
	}).
		Check(func(ctx context.Context, _ string) (string, lease.Finding, error) {
			d.in(ctx, "check charge")
			return "", lease.Happened, nil
		}).
		Undo(func(ctx context.Context, _, _, _ string) error { d.in(ctx, "undo charge"); return first(&stays) })
	ship := failing("ship", func() error { return &once.Failure{Code: "no"} })
	return saga.New("test", flowOf(reserve, charge, ship), reserve, charge, ship)
}

// TestTracerSeesEachRun: each run of a saga, with the trace of its start, and in it each step, undo and check that runs, with the context of
// the tracer. A step that has its result does not run.
func TestTracerSeesEachRun(t *testing.T) {
	in(t, func(g fixture) {
		d := new(diary)
		g.tracer = d
		ctx, cancel := context.WithTimeout(context.WithValue(g.Context(), spanKey{}, "the caller"), time.Hour)
		defer cancel()
		def := d.sagaOf()
		if _, err := saga.Do(ctx, g.runner(def), def, sagaID, ""); failureOf(err) != "no" {
			t.Error(err)
		}
		const run = "run, begun in the caller, background false: "
		d.want(g, "step reserve: done", "step charge: failed, timeout", run+"waiting",
			"check charge: done", "step ship: no", "undo charge: failed, down", run+"waiting",
			"undo charge: done", "undo reserve: done", run+"compensated")
	})
}

// TestTracerSeesNodes: a saga that a node has found has no caller, and the trace of its start.
func TestTracerSeesNodes(t *testing.T) {
	in(t, func(g fixture) {
		d := new(diary)
		g.tracer = d
		var ready atomic.Bool
		waits := failing("waits", func() error {
			if !ready.Load() {
				return saga.Again(time.Minute)
			}
			return &once.Failure{Code: "no"}
		})
		pivot := writes("pivot").Pivot()
		def := saga.New("test", flowOf(pivot, waits), pivot, waits)
		r := g.runner(def)
		tx := g.db.BeginTx()
		if _, err := saga.Start(context.WithValue(g.Context(), spanKey{}, "the caller"), r, tx, def, sagaID, ""); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(g.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		<-time.After(30 * time.Second)
		ready.Store(true)
		<-time.After(time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		const run, why = "run, begun in the caller, background true: ", `the saga has passed its pivot "pivot", so it cannot be undone any more: no`
		d.want(g, "step pivot: done", "step waits: not_yet", run+"waiting", "step waits: no", run+"stuck, "+why)
	})
}
