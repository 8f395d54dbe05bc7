package archive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// TestFullDisk archives onto a disk that is really full, or nearly.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !testenv.Isolated(t) {
		return
	}
	for room := range 4 {
		t.Run(fmt.Sprint(room), func(t *testing.T) { fullDisk(t, testenv.NewDisk(t, 256<<10), int64(room)) })
	}
}

// fullDisk leaves some pages of room, sweeps until nothing goes any more, makes room,
// and sweeps the rest.
func fullDisk(t *testing.T, disk *testenv.Disk, room int64) {
	t.Helper()
	dir := filepath.Join(disk.Path, "archive")
	w := mustOpen(t, dir)
	if err := disk.Fill(room); err != nil {
		t.Fatal(err)
	}
	s := memstore.New()
	e := once.New(s, once.Config{Retain: time.Hour})
	want := map[string]bool{}
	for i := range 40 {
		op := once.Operation{Scope: "s", Key: fmt.Sprint(i)}
		random := once.NewKey() + once.NewKey()
		_, err := once.Do(t.Context(), e, op, func(context.Context, *memstore.Tx) (string, error) { return strings.Repeat(random, 10), nil })
		if err != nil {
			t.Fatal(err)
		}
		want[op.Key] = true
	}
	s.Advance(2 * time.Hour)
	sweeper := retention.New(s, retention.Config{Batch: 10, Rate: 1 << 30, Archive: w.Write})
	first, err := sweeper.Sweep(t.Context())
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("vacuous: the disk is not full: %d rows swept, %v", first, err)
	}
	if again, err := sweeper.Sweep(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is still full: %d rows swept, %v", again, err)
	}
	if err := errors.Join(fewer(s, want), disk.Free()); err != nil {
		t.Fatal(err)
	}
	rest, err := sweeper.Sweep(t.Context())
	t.Logf("%d rows, then with room again %d", first, rest)
	if err != nil || first+rest > 40 {
		t.Error(err)
	}
	missing(t, dir, s, want)
	if left, err := s.Sweep(t.Context(), upkeep.Sweep{Limit: 100}); err != nil || left.Rows != 0 {
		t.Errorf("left in the store: %+v, %v", left, err)
	}
	all(t, dir)
}

// fewer drops nothing: what is in the store while the disk is full was not deleted.
func fewer(s *memstore.Store, want map[string]bool) error {
	found := 0
	_, err := s.Sweep(context.Background(), upkeep.Sweep{Limit: 100, Archive: func(_ context.Context, rows []upkeep.Expired) error {
		for _, e := range rows {
			if want[e.Key] {
				found++
			}
		}
		return errDisk
	}})
	if !errors.Is(err, errDisk) || found == 0 {
		return fmt.Errorf("vacuous: nothing is left in the store: %w", err)
	}
	return nil
}
