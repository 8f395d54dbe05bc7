package archive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestPowerCut takes the power away at the N-th change of the disk, N = 1, 2, ... until a
// sweep survives, and with it what was not flushed, or some of it. What the sweeper has
// deleted is then in the archive, whole, before it is mended; and a sweep after
// the restart, whose power may go again, loses nothing either.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	met := map[string]int{}
	runs := 0
	for _, l := range lucks {
		for _, kill := range []bool{false, true} {
			for n, first := 1, true; first; n++ {
				for again, second := 1+n%7, true; second; again += 7 {
					first, second = powerCut(t, l, kill, n, again, met)
					if runs++; t.Failed() {
						t.Fatalf("%+v, cut at change %d (only the process: %v), and again at %d", l, n, kill, again)
					}
				}
			}
		}
	}
	t.Logf("%d runs; met, and not flushed: %v", runs, met)
	for _, what := range []string{
		"the contents of a temporary file", "the contents of the manifest",
		"a name of a segment", "a name of the manifest", "a name of a folder",
	} {
		if met[what] == 0 {
			t.Errorf("vacuous: no cut has met %s, written and not flushed", what)
		}
	}
}

// powerCut sweeps 8 operations into a new archive, with cuts at two changes, and reports
// which of them have happened. The first may be that of the process alone.
func powerCut(t *testing.T, l luck, kill bool, at, again int, met map[string]int) (first, second bool) {
	t.Helper()
	s := memstore.New()
	want := expired(t, s, 8)
	base := t.TempDir()
	f := newFlaky(t, base, met)
	for i, cutAt := range []int{at, again, 0} {
		dir := filepath.Join(base, "var", "archive")
		f.changes, f.cutAt = 0, cutAt
		if err := sweepInto(t, f, s, dir); err != nil && !errors.Is(err, errPower) {
			t.Errorf("sweep %d: %v", i+1, err)
		}
		first, second = first || i == 0 && f.cut(), second || i == 1 && f.cut()
		if i == 0 && kill {
			f.flushFolders()
		} else {
			to := t.TempDir()
			f.restart(t, l, base, to)
			base = to
			f = newFlaky(t, base, met)
		}
		if dir = filepath.Join(base, "var", "archive"); exists(t, dir) {
			missing(t, dir, s, want)
		} else if left := remaining(t, s); len(left) < len(want) {
			t.Errorf("there is no archive, and in the store only %v", left)
		}
	}
	if _, damaged, err := Verify(t.Context(), filepath.Join(base, "var", "archive")); err != nil || len(damaged) > 0 {
		t.Errorf("damaged %+v, %v", damaged, err)
	}
	if left := remaining(t, s); len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
	return first, second
}

func expired(t *testing.T, s *memstore.Store, n int) map[string]bool {
	t.Helper()
	e := once.New(s, once.Config{Retain: time.Hour})
	want := map[string]bool{}
	for i := range n {
		op := once.Operation{Scope: "s", Key: fmt.Sprint(i)}
		if _, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (int, error) { return i, nil }); err != nil {
			t.Fatal(err)
		}
		want[op.Key] = true
	}
	s.Advance(2 * time.Hour)
	return want
}

// sweepInto sweeps all of s by one process, which then ends.
func sweepInto(t *testing.T, fs files, s *memstore.Store, dir string) error {
	t.Helper()
	w, err := open(dir, fs)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	sweeper := retention.New(s, retention.Config{Batch: 4, Rate: 1 << 30, Archive: w.Write})
	_, err = sweeper.Sweep(t.Context())
	return err
}

// remaining are the keys that the store still has.
func remaining(t *testing.T, s *memstore.Store) (keys []string) {
	t.Helper()
	_, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 1000, Archive: func(_ context.Context, rows []upkeep.Expired) error {
		for _, e := range rows {
			keys = append(keys, e.Key)
		}
		return errDisk // they stay
	}})
	if err != nil && !errors.Is(err, errDisk) {
		t.Error(err)
	}
	return keys
}
