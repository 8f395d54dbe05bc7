package retention_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// fill executes n operations that expire in an hour.
func fill(t *testing.T, s *memstore.Store, n int) {
	t.Helper()
	e := once.New(s, once.Config{Retain: time.Hour})
	for range n {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "s", Key: once.NewKey()}, func(context.Context, *memstore.Tx) (int, error) { return 1, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newSweeper(t *testing.T, s store.Operations, cfg retention.Config) *retention.Sweeper {
	t.Helper()
	sweeper := retention.New(s, cfg)
	return sweeper
}

// TestSweepKeepsItsRate: everything that has expired goes, no faster than it may.
func TestSweepKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		fill(t, s, 1000)
		var last retention.Pass
		sweeper := newSweeper(t, s, retention.Config{Batch: 30, Rate: 100, Observe: func(p retention.Pass) { last = p }})
		if n, err := sweeper.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("%d rows swept before their time, %v", n, err)
		}
		s.Advance(time.Hour)
		fill(t, s, 5)
		began := time.Now()
		n, err := sweeper.Sweep(t.Context())
		took := time.Since(began)
		if n != 1000 || err != nil || took < 9*time.Second || took > 10*time.Second {
			t.Errorf("%d rows swept of 1000 in %v, want 100 a second; %v", n, took, err)
		}
		if want := (retention.Pass{Rows: 1000, Took: took, Over: true}); last != want {
			t.Errorf("%+v was observed last, want %+v", last, want)
		}
	})
}

// TestSlowDatabaseGetsSmallBatches: the slower the database, the smaller the batches; and half of the time it
// is left alone.
func TestSlowDatabaseGetsSmallBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memstore.New(), perRow: time.Millisecond}
		fill(t, s.Store, 2000)
		s.Advance(time.Hour)
		began := time.Now()
		if n, err := newSweeper(t, s, retention.Config{}).Sweep(t.Context()); n != 2000 || err != nil {
			t.Fatal(n, err)
		}
		if last := s.limits[len(s.limits)-1]; s.limits[0] != retention.DefaultBatch || last > 50 || last < 10 {
			t.Errorf("batches of %v rows, of a millisecond each", s.limits)
		}
		if all := time.Since(began); s.busy > all*51/100 {
			t.Errorf("busy for %v of %v", s.busy, all)
		}
		s.perRow, s.limits = 0, s.limits[:0]
		fill(t, s.Store, 2000)
		s.Advance(time.Hour)
		if _, err := newSweeper(t, s, retention.Config{Batch: 100}).Sweep(t.Context()); err != nil || s.limits[len(s.limits)-1] != 100 {
			t.Errorf("batches of %v, want 100, the most; %v", s.limits, err)
		}
	})
}

// slow is a store whose sweeps take time.
type slow struct {
	*memstore.Store
	perRow, busy time.Duration
	limits       []int
}

func (s *slow) Sweep(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	s.limits = append(s.limits, req.Limit)
	swept, err := s.Store.Sweep(ctx, req)
	took := time.Duration(swept.Rows) * s.perRow
	s.busy += took
	<-time.After(took)
	return swept, err
}

// TestRunGoesOnAfterErrors: errors make it wait, not end, and each pass comes after a pause that is not
// always the same.
func TestRunGoesOnAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failing{Store: memstore.New(), fails: 3}
		fill(t, s.Store, 10)
		s.Advance(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		var ends []time.Duration
		var errs, rows int
		began := time.Now()
		sweeper := newSweeper(t, s, retention.Config{Every: time.Minute, Observe: func(p retention.Pass) {
			if !p.Over {
				return
			}
			ends = append(ends, time.Since(began))
			rows += p.Rows
			if p.Err != nil {
				errs++
			}
		}})
		done := make(chan error)
		go func() { done <- sweeper.Run(ctx) }()
		<-time.After(20 * time.Minute)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if errs != 3 || rows != 10 {
			t.Errorf("%d errors, %d rows", errs, rows)
		}
		if n := len(ends) - errs; n < 12 || n > 40 {
			t.Errorf("%d passes in 20 minutes, want one every minute or so", n)
		}
		if ends[2]-ends[1] < ends[1]-ends[0] && ends[3]-ends[2] < ends[1]-ends[0] {
			t.Errorf("pauses after errors do not grow: %v", ends[:4])
		}
		if a, b, c := ends[5]-ends[4], ends[6]-ends[5], ends[7]-ends[6]; a == b && b == c {
			t.Errorf("no jitter: %v", ends)
		}
	})
}

// failing fails at first.
type failing struct {
	*memstore.Store
	fails int
}

func (s *failing) Sweep(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	if s.fails--; s.fails >= 0 {
		return upkeep.Swept{}, &store.Error{Kind: store.KindUnavailable, Err: errors.New("no connection")}
	}
	return s.Store.Sweep(ctx, req)
}

// TestHangingStoreIsAnError: a store that never answers is an error, not a pass that never ends.
func TestHangingStoreIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hanging{memstore.New()}
		if _, err := newSweeper(t, s, retention.Config{}).Sweep(t.Context()); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

type hanging struct{ *memstore.Store }

func (hanging) Sweep(ctx context.Context, _ upkeep.Sweep) (upkeep.Swept, error) {
	<-ctx.Done()
	return upkeep.Swept{}, ctx.Err()
}

// TestInvalidConfigPanics: what cannot work is said at once.
func TestInvalidConfigPanics(t *testing.T) {
	for name, create := range map[string]func(){
		"a store that cannot sweep": func() { retention.New(blind{memstore.New()}, retention.Config{}) },
		"a negative rate":           func() { retention.New(memstore.New(), retention.Config{Rate: -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			create()
		}()
	}
}

type blind struct{ store.Operations }

func Example() {
	s := memstore.New() // in a service: engine.Store()
	sweeper := retention.New(s, retention.Config{
		Observe: func(p retention.Pass) { fmt.Println(p.Rows, "rows deleted") },
	})
	_, err := sweeper.Sweep(context.Background()) // in a service: go sweeper.Run(ctx)
	fmt.Println(err)
	// Output:
	// 0 rows deleted
	// <nil>
}
