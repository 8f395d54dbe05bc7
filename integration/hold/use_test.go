package hold

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestPartsInUseStay: parts in use are not let go to a new node before the unit of work has ended, and no
// other unit of work begins on those that are to leave.
func TestPartsInUseStay(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		const parts = 4
		first := start(t, db, hold.Config{Parts: parts, TTL: patience})
		harness.Until(t, func() error { return even(parts, first) })
		used, done := first.Use(all(parts))
		g := &gate{Database: db}
		second := start(t, g, hold.Config{Parts: parts, TTL: patience})
		harness.Until(t, func() error { // the first gives up its parts one after the other
			if n := len(first.parts()); n == parts {
				return fmt.Errorf("a unit of work can begin on %d parts", n)
			}
			return nil
		})
		from := g.statements()
		harness.Until(t, func() error { // the second looks for parts that are free
			if n := g.statements() - from; n < 2 {
				return fmt.Errorf("the new node has run %d statements", n)
			}
			return nil
		})
		if got := second.parts(); len(got) > 0 {
			t.Errorf("the new node holds %v, which are in use", got)
		}
		if n := changeHeld(t, db, used); n != parts {
			t.Errorf("of %d parts in use, %d are held", parts, n)
		}
		done()
		done() // a second time is harmless
		harness.Until(t, func() error { return even(parts, first, second) })
	})
}

// changeHeld changes the rows of those of parts that are still held, and returns how many they are.
func changeHeld(t *testing.T, db sqlplane.Database, parts []hold.Part) int64 {
	t.Helper()
	condition, args := hold.StillHeld(hold.Table, work, "n", parts)
	run(t, db.Pool(), statement(db, "create table if not exists probe (n integer primary key, touched integer)"))
	for _, p := range parts {
		run(t, db.Pool(), statement(db, "insert into probe (n, touched) values (?, 0) KEEP(n)", p.Number))
	}
	return run(t, db.Pool(), statement(db, "update probe set touched = touched + 1 where "+condition, args...))
}

// TestDrainReleasesUnusedPartsAtOnce: when its context ends, a node lets go what is not in use at once, and the rest when it is not in use
// any more. Meanwhile it renews. The other node does not wait until anything expires.
func TestDrainReleasesUnusedPartsAtOnce(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		const parts, long = 8, time.Hour
		first := start(t, db, hold.Config{Parts: parts, TTL: long})
		second := start(t, db, hold.Config{Parts: parts, TTL: long})
		harness.Until(t, func() error { return even(parts, first, second) })
		used, done := first.Use([]int{first.parts()[0].Number})
		first.cancel()
		harness.Until(t, func() error {
			if n := len(second.parts()); n != parts-1 {
				return fmt.Errorf("the other node holds %d parts", n)
			}
			return nil
		})
		if n := changeHeld(t, db, used); n != 1 || len(first.parts()) > 0 {
			t.Errorf("the part in use is held: %d; units of work can begin on %v", n, first.parts())
		}
		select {
		case <-first.ended:
			t.Error("Run returns while a part is in use")
		default:
		}
		done()
		<-first.ended
		harness.Until(t, func() error { return even(parts, second) })
		if n := nodes(t, db); n != 1 {
			t.Errorf("%d nodes are in the table, want the one that lives", n)
		}
	})
}

// TestDrainIsBounded: a unit of work that never ends keeps no part longer than TTL, and its fences are old then.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	db, _ := newDB(t, harness.SQLite)
	first := start(t, db, hold.Config{Parts: 2})
	harness.Until(t, func() error { return even(2, first) })
	used, _ := first.Use(all(2))
	first.end(t)
	second := start(t, db, hold.Config{Parts: 2})
	harness.Until(t, func() error { return even(2, second) })
	if n := changeHeld(t, db, used); n > 0 {
		t.Errorf("%d parts of the unit of work that never ends are held", n)
	}
}

// TestChangedIsCalledForEachChange: each change of what is held is told, also that parts are lost because no renewal succeeds.
func TestChangedIsCalledForEachChange(t *testing.T) {
	t.Parallel()
	db, _ := newDB(t, harness.SQLite)
	g := &gate{Database: db}
	h := hold.New(g, hold.Config{Work: work, Parts: 2, TTL: ttl})
	var told atomic.Int64 // the last time
	told.Store(-1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- h.Run(ctx, func() {
			held, done := h.Use(all(2))
			done()
			told.Store(int64(len(held)))
		})
	}()
	wait := func(want int) {
		t.Helper()
		harness.Until(t, func() error {
			held, done := h.Use(all(2))
			done()
			if n := told.Load(); n != int64(want) || len(held) != want {
				return fmt.Errorf("it was told that %d parts are held, and %d are, want %d", n, len(held), want)
			}
			return nil
		})
	}
	wait(2)
	g.cut()
	wait(0)
	g.mend()
	wait(2)
	cancel()
	wait(0)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNotMigrated: without its tables, a Holder says so.
func TestNotMigrated(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		run(t, db.Pool(), statement(db, "drop table once_hold_node"))
		err := hold.New(db, hold.Config{Work: work, Parts: 2, TTL: ttl}).Run(t.Context(), nil)
		if !errors.Is(err, store.ErrNotMigrated) {
			t.Errorf("%v, want %v", err, store.ErrNotMigrated)
		}
	})
}
