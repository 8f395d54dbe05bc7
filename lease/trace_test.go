package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/memstore"
)

// diary is a Tracer that notes what it is shown.
type diary struct{ lines []string }

type inPhase struct{}

func (d *diary) PhaseStart(ctx context.Context, p lease.Phase) (_ context.Context, end func(error)) {
	d.lines = append(d.lines, fmt.Sprintf("%s begins, call %v", p.Name, p.Call))
	return context.WithValue(ctx, inPhase{}, p.Name), func(err error) { d.lines = append(d.lines, fmt.Sprintf("%s ends, error %v", p.Name, err != nil)) }
}

// TestTracerSeesEachPhaseThatRuns: its beginning, and its end also after an error and a panic; the phase has the context of the
// tracer. A phase whose value is saved does not run.
func TestTracerSeesEachPhaseThatRuns(t *testing.T) {
	s, d := memstore.New(), new(diary)
	e := once.New(lease.New(s, lease.Config{Tracer: d}), once.Config{Observer: once.Discard})
	var phases []any
	work := func(fail func() error) {
		defer func() { _ = recover() }()
		_, _ = once.Do(t.Context(), e, op, func(ctx context.Context, run *lease.Run) (int, error) {
			n, err := lease.InTx(ctx, run, s, "reserve", func(ctx context.Context, tx *memstore.Tx) (int, error) {
				phases = append(phases, ctx.Value(inPhase{}))
				return 1, tx.Put("x", "1")
			})
			if err != nil {
				return n, err
			}
			return lease.Call(ctx, run, "charge", func(ctx context.Context, _ string) (int, error) {
				phases = append(phases, ctx.Value(inPhase{}))
				return 1, fail()
			}, lease.CallPolicy{SafeToRepeat: true})
		})
	}
	work(func() error { return errors.New("timeout") })
	work(func() error { panic("x") })
	work(func() error { return nil })
	work(func() error { t.Error("it is done"); return nil })
	want := []string{
		"reserve begins, call false", "reserve ends, error false", "charge begins, call true", "charge ends, error true",
		"charge begins, call true", "charge ends, error true",
		"charge begins, call true", "charge ends, error false",
	}
	if !slices.Equal(d.lines, want) {
		t.Errorf("%q", d.lines)
	}
	if !slices.Equal(phases, []any{"reserve", "charge", "charge", "charge"}) {
		t.Errorf("contexts of %v", phases)
	}
}
