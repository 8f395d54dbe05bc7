package saga

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
)

// plan is what a node does: it starts a saga.
type plan struct {
	harness.Database

	Key  string
	No   bool
	Undo bool  // in place of a saga, it undoes an operation
	Stop bool  // it stops itself at the point in place of that, in the middle of a saga that waits: see TestStoppedNodeChangesNothing
	At   int64 // it kills itself at this point; 0: never
}

// CarryOut prints how many points the node has passed.
func (p plan) CarryOut(ctx context.Context) error {
	return p.Use(ctx,
		func(s harness.Store[pgx.Tx]) error { return starts(ctx, p, system[pgx.Tx]{db: s, no: p.No}) },
		func(s harness.Store[*sql.Tx]) error { return starts(ctx, p, system[*sql.Tx]{db: s, no: p.No}) })
}

func starts[TX any](ctx context.Context, p plan, s system[TX]) error {
	if p.Stop {
		return startsAndStops(ctx, p, s)
	}
	var points atomic.Int64
	s.at = func(point string) {
		if point != "read" && point != "begin" && points.Add(1) == p.At { // what does not change the database is no point
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	var err error
	if db := (&harness.Points[TX]{Store: s.db, At: s.at}); p.Undo {
		_, err = s.undo(ctx, once.New[TX](db, once.Config{Observer: once.Discard}), p.Key)
	} else {
		d := s.definition()
		_, err = saga.Do(ctx, s.runner(db, d), d, idOf(p.Key), p.Key)
	}
	fmt.Println("points", points.Load(), strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	return nil
}

// TestKillAtEveryPoint: a node is killed (SIGKILL) before and after each commit and request of a saga that completes, and of one that is undone. Another
// node brings it to its end: each effect is there once, and undone once if the saga has turned.
func TestKillAtEveryPoint(t *testing.T) {
	testenv.Core(t)
	on(t, kills[pgx.Tx], kills[*sql.Tx])
}

func kills[TX any](t *testing.T, s system[TX]) {
	for _, s.no = range []bool{false, true} {
		var total int64
		_, err := fmt.Sscanf(s.start(t, "not killed", 0), "points %d", &total)
		must(t, err)
		s.finish(t, fmt.Sprintf("not killed, no %t", s.no))
		var killed atomic.Int64
		keys := make([]string, total)
		var all sync.WaitGroup
		places := make(chan struct{}, 2)
		for i := range total {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				key := fmt.Sprintf("point %d", i+1)
				if s.start(t, key, i+1) == "" {
					killed.Add(1)
				}
				keys[i] = fmt.Sprintf("%s, no %t", key, s.no)
			})
		}
		all.Wait()
		for _, key := range keys { // what was killed before its first commit is started again by its starter
			if _, err := s.runner(s.db, s.definition()).Status(t.Context(), idOf(key)); err != nil {
				d := s.definition()
				_, err := saga.Do(t.Context(), s.runner(s.db, d), d, idOf(key), key)
				if err != nil && once.EffectOf(err) != once.EffectNotApplied {
					t.Error(key, err)
				}
			}
		}
		s.finish(t, keys...)
		for _, key := range keys {
			s.judge(t, key)
		}
		testenv.Reportf(t, "%s, no %t: killed at %d of %d points", s.Kind, s.no, killed.Load(), total)
		if killed.Load() < 8 {
			t.Errorf("vacuous: killed %d times", killed.Load())
		}
	}
}

// start runs a node to its end, and returns what it says; "" if it was killed.
func (s system[TX]) start(t *testing.T, key string, at int64) (said string) {
	t.Helper()
	return s.run(t, plan{Database: s.Database, Key: fmt.Sprintf("%s, no %t", key, s.no), No: s.no, At: at})
}

func (s system[TX]) run(t *testing.T, p plan) (said string) {
	t.Helper()
	lines, killed := harness.Start(t, p).End(t)
	if killed || len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}
