package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// What a node prints that stops.
const (
	saidStop    = "stop"    // it stops now
	saidRefused = "refused" // it was stopped, and something that it writes is refused
	saidLooks   = "looks"   // it was stopped, and reads what has become of the saga
	saidWaits   = "waits"   // the saga waits, and was not stopped before
)

// startsAndStops is what such a node does. In the end it prints what it is told.
func startsAndStops[TX any](ctx context.Context, p plan, s system[TX]) error {
	points := &stopStore[TX]{Store: s.db, plan: p}
	s.at, s.waits = points.at, true
	d := s.definition()
	value, err := saga.Do(ctx, s.runner(points, d), d, idOf(p.Key), p.Key)
	fmt.Println(told(value, err))
	return nil
}

// told is what the starter of a saga is told.
func told(value string, err error) string {
	var f *once.Failure
	switch {
	case errors.As(err, &f):
		return "failure " + f.Code
	case err != nil:
		return "error " + string(once.CodeOf(err))
	}
	return "value " + value
}

// stopStore passes a point before and after each thing that may change the database.
type stopStore[TX any] struct {
	harness.Store[TX]

	plan   plan
	passed atomic.Int64
	woke   atomic.Bool
	renews sync.Mutex
}

// Unwrap lets the other abilities of the store be found.
func (s *stopStore[TX]) Unwrap() any { return s.Store }

func (s *stopStore[TX]) at(point string) {
	if point == "commit" && s.plan.Kind == harness.SQLite || s.passed.Add(1) != s.plan.At { // others would wait for its lock on the file
		return
	}
	s.renews.Lock() // nothing that it does beside this point may hold a lock
	defer s.renews.Unlock()
	fmt.Println(saidStop)
	if err := harness.Stop(); err != nil {
		panic(err)
	}
	s.woke.Store(true)
}

// wrote notes what became of a write.
func (s *stopStore[TX]) wrote(next store.State, err error) {
	switch {
	case s.woke.Load() && store.KindOf(err) == store.KindTaken:
		fmt.Println(saidRefused)
	case err == nil && next == store.StateWaiting && !s.woke.Load():
		s.passed.Store(s.plan.At) // there are no more points
		fmt.Println(saidWaits)
	}
}

func (s *stopStore[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if s.woke.Load() {
		fmt.Println(saidLooks)
	}
	return s.Store.Read(ctx, id)
}

func (s *stopStore[TX]) Renew(ctx context.Context, holds []store.Hold, d time.Duration) ([]store.Hold, error) {
	s.renews.Lock()
	defer s.renews.Unlock()
	r, _ := store.As[store.Renewer](s.Store)
	return r.Renew(ctx, holds, d)
}

func (s *stopStore[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	s.at("swap")
	rec, err := s.Store.Swap(ctx, c)
	s.at("swapped")
	s.wrote(c.Next.State, err)
	return rec, err
}

func (s *stopStore[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	c, rec, err := s.Store.Begin(ctx, opts)
	if c == nil {
		return c, rec, err
	}
	return &stopClaim[TX]{c, s}, rec, err
}

type stopClaim[TX any] struct {
	store.Transaction[TX]

	s *stopStore[TX]
}

func (c *stopClaim[TX]) Unwrap() any { return c.Transaction }

func (c *stopClaim[TX]) Commit(ctx context.Context, ch store.Change) error {
	c.s.at("commit")
	err := c.Transaction.Commit(ctx, ch)
	c.s.at("committed")
	c.s.wrote(ch.Next.State, err)
	return err
}

// TestStoppedNodeChangesNothing: a node is stopped (SIGSTOP) before and after each commit and request of a saga for longer than its lease, and goes on (SIGCONT) while the
// saga waits in the middle at another node, on its way forward or back. What it writes then is refused, both are told the same, and each effect is
// there once.
func TestStoppedNodeChangesNothing(t *testing.T) {
	testenv.Core(t)
	on(t, stops[pgx.Tx], stops[*sql.Tx])
}

func stops[TX any](t *testing.T, s system[TX]) {
	s.waits = true
	for _, s.no = range []bool{false, true} {
		refused := 0
		harness.Loop(t, 7, func(at int) bool {
			p := plan{Database: s.Database, Key: fmt.Sprintf("point %d, no %t", at, s.no), No: s.no, Stop: true, At: int64(at)}
			c := harness.Start(t, p)
			struck := hears(t, c, saidStop, saidWaits) == saidStop
			if struck {
				c.UntilStopped(t)
			}
			d := s.definition()
			r := s.runner(s.db, d)
			other := make(chan string, 1)
			go func() {
				value, err := saga.Do(t.Context(), r, d, idOf(p.Key), p.Key)
				other <- told(value, err)
			}()
			harness.Until(t, func() error {
				if st, err := r.Status(t.Context(), idOf(p.Key)); err != nil || st.State != "waiting" {
					return fmt.Errorf("%s: %+v, %w", p.Key, st, err)
				}
				return nil
			})
			if struck {
				c.Signal(syscall.SIGCONT)
				if hears(t, c, saidRefused, saidLooks) == saidRefused {
					refused++
				}
			}
			s.approve(t, r, p.Key)
			lines, killed := c.End(t)
			if said, want := lines[len(lines)-1], <-other; killed || said != want || strings.HasPrefix(want, "error") {
				t.Errorf("%s: killed %t, it is told %q, and the other one %q", p.Key, killed, said, want)
			}
			s.judge(t, p.Key)
			return struck
		})
		testenv.Reportf(t, "%s, no %t: refused at %d points", s.Kind, s.no, refused)
		if refused < 2 {
			t.Errorf("vacuous: of what was stopped, %d writes were refused", refused)
		}
	}
}

// hears waits until a node prints one of several lines.
func hears(t *testing.T, c *harness.Child, lines ...string) string {
	t.Helper()
	for line := range c.Lines() {
		if slices.Contains(lines, line) {
			return line
		}
	}
	t.Fatalf("a node has ended, and has said none of %q", lines)
	return ""
}
