package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// takes does something before and after a node takes what is due.
type takes[TX any] struct {
	harness.Store[TX]

	before, after func()
}

func (s *takes[TX]) Unwrap() any { return s.Store }

func (s *takes[TX]) Take(ctx context.Context, ids []store.ID, nonce []byte, lease time.Duration, then store.Statement) ([]upkeep.Entry, error) {
	taker, _ := store.As[upkeep.Taker](s.Store)
	s.before()
	entries, err := taker.Take(ctx, ids, nonce, lease, then)
	if s.after != nil {
		s.after()
		return nil, &store.Error{Kind: store.KindLost, Err: errors.New("the server was killed")}
	}
	return entries, err
}

// TestServerRestarts: the server is killed before a node takes what is due, and behind it, when the node does not know what it has. It comes back,
// and the node goes on with all of it, each effect once.
func TestServerRestarts(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	server, d := harness.NewServer(t, harness.Pgx, false)
	must(t, d.Migrate(t.Context(), sets, effects, served))
	db, _ := harness.OpenPgx(t, d)
	s := system[pgx.Tx]{Database: d, db: db}
	restarts := 0
	for _, lost := range []bool{false, true} {
		tk := &takes[pgx.Tx]{Store: db}
		restart := func() {
			tk.before, tk.after = func() {}, nil
			restarts++
			must(t, errors.Join(server.Kill(), server.Restart(t.Context())))
		}
		if tk.before, tk.after = restart, nil; lost {
			tk.before, tk.after = func() {}, restart
		}
		def := s.definition()
		r := s.runner(tk, def)
		var keys []string
		for i := range 8 {
			key := fmt.Sprintf("lost %t, %d", lost, i)
			keys = append(keys, key)
			s.startIn(t, r, def, idOf(key))
		}
		stop := runs(t, r)
		for _, key := range keys {
			s.until(t, r, key, saga.StateCompleted)
		}
		stop()
		for _, key := range keys {
			s.judge(t, key)
		}
	}
	if restarts != 2 {
		t.Errorf("vacuous: the server was killed %d times", restarts)
	}
}

func (s system[TX]) until(t *testing.T, r *saga.Runner[TX], key, state string) {
	t.Helper()
	harness.Until(t, func() error {
		if st, err := r.Status(t.Context(), idOf(key)); err != nil || st.State != state {
			return fmt.Errorf("%s: %+v, %w", key, st, err)
		}
		return nil
	})
}

// TestClockTwoHoursFromTheNodes: the clock of the database is two hours from that of the nodes, ahead or behind. Sagas begin at once, a wait of an hour is not over
// for that, and it is over when an hour has passed on the clock of the database.
func TestClockTwoHoursFromTheNodes(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.MariaDB}, func(t *testing.T, kind string) {
		t.Helper()
		server, d := harness.NewServer(t, kind, true)
		must(t, d.Migrate(t.Context(), sets, effects, served))
		if kind == harness.Pgx {
			db, _ := harness.OpenPgx(t, d)
			clocks(t, system[pgx.Tx]{Database: d, db: db}, server)
			return
		}
		db, _ := harness.OpenSQL(t, d)
		clocks(t, system[*sql.Tx]{Database: d, db: db}, server)
	})
}

func clocks[TX any](t *testing.T, s system[TX], server harness.Server) {
	s.waits, s.ttl = true, patience
	def := s.definition()
	for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		must(t, server.SetClock(ahead))
		first, second := fmt.Sprint("first, ", ahead), fmt.Sprint("second, ", ahead)
		fence := func() int64 {
			rec, err := s.db.Read(t.Context(), store.ID{Scope: "saga/acme", Key: first})
			must(t, err)
			return rec.Fence
		}
		r := s.runner(s.db, def)
		stop := runs(t, r)
		s.startIn(t, r, def, idOf(first))
		harness.Until(t, func() error {
			if st, err := r.Status(t.Context(), idOf(first)); err != nil || st.State != saga.StateWaiting || len(st.Steps) < 2 {
				return fmt.Errorf("it has not begun: %+v, %w", st, err)
			}
			return nil
		})
		waiting := fence()
		s.approve(t, r, second)
		s.startIn(t, r, def, idOf(second))
		s.until(t, r, second, saga.StateCompleted)
		if now := fence(); now != waiting {
			t.Errorf("%v: a saga that waits for an hour was taken before", ahead)
		}
		must(t, server.SetClock(ahead+61*time.Minute))
		harness.Until(t, func() error {
			if fence() == waiting {
				return errors.New("an hour has passed, and the saga is not taken")
			}
			return nil
		})
		s.approve(t, r, first)
		s.until(t, r, first, saga.StateCompleted)
		stop()
		s.judge(t, first)
		s.judge(t, second)
	}
}
