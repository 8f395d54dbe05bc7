package retention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	most         int // how many rows a batch has at most, if not 0
}

func (s *slow) Sweep(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	s.limits = append(s.limits, req.Limit)
	if s.most > 0 {
		req.Limit = min(req.Limit, s.most)
	}
	swept, err := s.Store.Sweep(ctx, req)
	took := time.Duration(swept.Rows) * s.perRow
	s.busy += took
	<-time.After(took)
	return swept, err
}

// TestSlowArchiveDeletesItsRows: an archive that takes a second for each row gets small batches, each row only one time.
func TestSlowArchiveDeletesItsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memstore.New()}
		fill(t, s.Store, 300)
		s.Advance(time.Hour)
		archived := 0
		sweeper := newSweeper(t, s, retention.Config{Archive: func(ctx context.Context, rows []upkeep.Expired) error {
			<-time.After(time.Duration(len(rows)) * time.Second)
			archived += len(rows)
			return ctx.Err()
		}})
		if n, err := sweeper.Sweep(t.Context()); n != 300 || archived != 300 || err != nil {
			t.Errorf("%d rows deleted and %d archived of 300, %v", n, archived, err)
		}
		if last := s.limits[len(s.limits)-1]; s.limits[0] != 100 || last > 12 || last < 1 {
			t.Errorf("batches of %v rows, want smaller ones, of ten seconds", s.limits)
		}
	})
}

// TestFailingArchiveGetsSmallerBatches: also in the next pass, so that an archive that cannot take so many rows at a time does not receive the same
// rows for ever.
func TestFailingArchiveGetsSmallerBatches(t *testing.T) {
	s := &slow{Store: memstore.New()}
	fill(t, s.Store, 50)
	s.Advance(time.Hour)
	sweeper := newSweeper(t, s, retention.Config{Archive: func(_ context.Context, rows []upkeep.Expired) error {
		if len(rows) > 3 {
			return errors.New("too many rows")
		}
		return nil
	}})
	rows, passes := 0, 0
	for ; rows < 50 && passes < 100; passes++ {
		n, err := sweeper.Sweep(t.Context())
		if rows += n; (err != nil) != (rows < 50) {
			t.Errorf("%d rows deleted, %v", rows, err)
		}
	}
	if rows != 50 {
		t.Errorf("%d of 50 rows deleted in %d passes, in batches of %v", rows, passes, s.limits)
	}
}

// TestQuickArchiveGetsLargeBatches: up to Batch, because each batch costs a few flushes of the disk.
func TestQuickArchiveGetsLargeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for batch, want := range map[int]string{30: "[30 30 30 30 30]", 250: "[100 200]", 1000: "[100 200]"} {
			s := &slow{Store: memstore.New()}
			fill(t, s.Store, 149)
			s.Advance(time.Hour)
			sweeper := newSweeper(t, s, retention.Config{Batch: batch, Archive: func(context.Context, []upkeep.Expired) error { return nil }})
			if n, err := sweeper.Sweep(t.Context()); n != 149 || err != nil || fmt.Sprint(s.limits) != want {
				t.Errorf("Batch %d: batches of %v, want %s; %d rows deleted, %v", batch, s.limits, want, n, err)
			}
		}
	})
}

// TestLargeRowsGetSmallBatches: a store that ends its batches early, because rows are large, is not asked for many more rows, which it would read in
// vain.
func TestLargeRowsGetSmallBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: memstore.New(), most: 7}
		fill(t, s.Store, 140)
		s.Advance(time.Hour)
		sweeper := newSweeper(t, s, retention.Config{Archive: func(context.Context, []upkeep.Expired) error { return nil }})
		if n, err := sweeper.Sweep(t.Context()); n != 140 || err != nil || slices.Max(s.limits[1:]) > 14 {
			t.Errorf("%d rows deleted of 140 in batches of %v, %v", n, s.limits, err)
		}
	})
}

// TestLockedRowIsSkipped: rows after a row that another transaction has locked are deleted. A pass does not archive the locked row again and again.
func TestLockedRowIsSkipped(t *testing.T) {
	for _, c := range []struct{ batch, most, left int }{{2, 10, 1}, {3, 10, 1}, {10, 1, 6}} { // if each batch has one row, no pass gets past the locked row
		synctest.Test(t, func(t *testing.T) {
			s := &locking{rows: 10, locked: 5, most: c.most, deleted: map[int]bool{}}
			archived := 0
			sweeper := newSweeper(t, s, retention.Config{Batch: c.batch, Archive: func(_ context.Context, rows []upkeep.Expired) error {
				if archived += len(rows); archived > 20 {
					return errors.New("the same rows again")
				}
				return nil
			}})
			if n, err := sweeper.Sweep(t.Context()); n != 10-c.left || err != nil {
				t.Errorf("%+v: %d of 10 rows deleted and %d archived, %v", c, n, archived, err)
			}
		})
	}
}

// locking is a store with expired rows, of which one is locked. The rows are numbered from 1 in the order of their expiry.
type locking struct {
	store.Operations
	rows, locked int
	most         int // rows of a batch
	deleted      map[int]bool
}

func (s *locking) Sweep(ctx context.Context, req upkeep.Sweep) (upkeep.Swept, error) {
	var found []int
	for i := max(1, int(req.After.Unix())); i <= s.rows && len(found) < min(req.Limit, s.most); i++ {
		if !s.deleted[i] {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return upkeep.Swept{Mark: req.After}, nil
	}
	swept := upkeep.Swept{More: len(found) == min(req.Limit, s.most), Mark: time.Unix(int64(found[len(found)-1]), 0)}
	err := req.Archive(ctx, make([]upkeep.Expired, len(found)))
	for _, i := range found {
		if i != s.locked {
			s.deleted[i] = true
			swept.Rows++
		}
	}
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
