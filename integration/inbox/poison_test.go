package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestPoisonStorm: one message in ten fails for good. All others are applied, once and in the order of their keys, and each that
// has failed is a dead letter. It reports how much slower that is than without poison.
func TestPoisonStorm(t *testing.T) {
	testenv.Prove(t)
	for _, order := range []inbox.Order{inbox.AnyOrder, inbox.InOrder} {
		t.Run(fmt.Sprint("order ", order), func(t *testing.T) {
			t.Run("pgxstore", func(t *testing.T) { testPoisonStorm[pgx.Tx](t, newPgx(t), order) })
			for _, name := range []string{"SQLite", "MariaDB"} {
				t.Run(name, func(t *testing.T) {
					testenv.Sample(t, 8)
					testPoisonStorm[*sql.Tx](t, newSQL(t, name), order)
				})
			}
		})
	}
}

func testPoisonStorm[TX any](t *testing.T, g *fixture[TX], order inbox.Order) {
	n := 2000
	if os.Getenv("ONCE_TORTURE") == "long" {
		n = 100_000
	}
	g.exec(t, "create index effect_key on effect (k)")
	clean := newStorm(g, "clean", order, n, 0)
	without := clean.deliver(t)
	clean.check(t, 0, 0)
	g.exec(t, "delete from effect")

	s := newStorm(g, "storm", order, n, 10)
	with := s.deliver(t)
	testenv.Reportf(t, "%d messages: %.0f per second; %.0f with 10 %% of poison, which is %.2f of it", n, without, with, with/without)
	if order == inbox.AnyOrder {
		s.check(t, n/10, 0)
		return
	}
	waiting := 0 // behind the poison of their keys
	for i := range n {
		if s.behind(i) {
			waiting++
		}
	}
	s.check(t, n/10, waiting)
	if t.Failed() {
		return
	}
	// When a person has discarded the letters, what waits behind them follows.
	discarded, err := deadletter.New(g.store, deadletter.Config{}).Discard(t.Context(), deadletter.Filter{Consumer: s.consumer}, "ada", "they are poison")
	must(t, err)
	if discarded != int64(n/10) {
		t.Errorf("%d letters were discarded, want %d", discarded, n/10)
	}
	for left := waiting; left > 0; {
		most := max(0, left-5000) // what is applied in the time of patience
		run(t, s.in, s.handle, func() bool {
			left = g.count(t, "select count(*) from once_inbox_parked")
			return left <= most
		})
	}
	s.check(t, 0, 0)
}

// storm is messages of many keys, which several workers get. Each tenth message is poison, or none; no key has two of them.
type storm[TX any] struct {
	g               *fixture[TX]
	in              *inbox.Inbox[TX]
	consumer        string
	order           inbox.Order
	n, keys, poison int
}

func newStorm[TX any](g *fixture[TX], consumer string, order inbox.Order, n, poison int) *storm[TX] {
	in, _ := g.inboxOn(g.engine, inbox.Config{Consumer: consumer, Order: order, Policy: soon(2), Isolation: store.ReadCommitted})
	return &storm[TX]{g, in, consumer, order, n, n/10 + 1, poison}
}

func (s *storm[TX]) isPoison(i int) bool { return s.poison > 0 && i%s.poison == 7 }

// behind reports whether a message of the same key before message i is poison.
func (s *storm[TX]) behind(i int) bool {
	for i -= s.keys; i >= 0; i -= s.keys {
		if s.isPoison(i) {
			return true
		}
	}
	return false
}

// message is the i-th one.
func (s *storm[TX]) event(i int) message.Message {
	m := ordered(fmt.Sprint("key", i%s.keys), int64(i/s.keys)+1)
	m.ID = fmt.Sprint("m", i)
	if s.isPoison(i) {
		m.Type = "poison"
	}
	return m
}

func (s *storm[TX]) handle(ctx context.Context, tx TX, m message.Message) error {
	if err := s.g.book(ctx, tx, m); err != nil || m.Type != "poison" {
		return err
	}
	if m.Seq%2 == 0 {
		return retry.Permanent(errRefused)
	}
	return errRefused
}

// deliver delivers all messages until they are acknowledged, those of a key to one worker, and returns how many there were in a second.
func (s *storm[TX]) deliver(t *testing.T) float64 {
	t.Helper()
	const workers, most = 4, 50
	begin := time.Now()
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			var batch []message.Message
			for i, last := 0, time.Now(); i < s.n || len(batch) > 0; {
				for ; i < s.n && len(batch) < most; i++ {
					if i%s.keys%workers == worker {
						batch = append(batch, s.event(i))
					}
				}
				var again []message.Message
				for j, r := range s.in.HandleBatch(t.Context(), batch, s.handle) {
					if r.Err != nil {
						again = append(again, batch[j])
					}
				}
				if len(again) < len(batch) {
					last = time.Now()
				} else if time.Since(last) > patience {
					t.Errorf("worker %d: no message is acknowledged any more", worker)
					return
				}
				batch = again
			}
		})
	}
	wg.Wait()
	return float64(s.n) / time.Since(begin).Seconds()
}

// check expects as many dead letters, and all of poison, and as many messages to wait behind them. All others must be applied,
// each once, and in the order of their keys.
func (s *storm[TX]) check(t *testing.T, letters, waiting int) {
	t.Helper()
	effects := map[string]int{}
	last := map[string]int64{}
	must(t, s.g.store.Pool().Query(t.Context(), s.g.text("select event, k, seq, before_seq from effect order by k, seq"), func(row sqlplane.Row) error {
		var event, k string
		var seq, before int64
		err := row.Scan(&event, &k, &seq, &before)
		effects[event]++
		if before != last[k] {
			t.Errorf("%s: message %d was applied after message %d, want %d", k, seq, before, last[k])
		}
		last[k] = seq
		return err
	}))
	applied := 0
	for i := range s.n {
		wanted := 1
		if s.isPoison(i) || waiting > 0 && s.behind(i) {
			wanted = 0
		}
		if applied += wanted; effects[s.event(i).ID] != wanted {
			t.Errorf("message %d was applied %d times, want %d", i, effects[s.event(i).ID], wanted)
		}
	}
	if len(effects) != applied {
		t.Errorf("%d messages were applied, want %d", len(effects), applied)
	}
	for what, c := range map[string]struct{ got, want int }{
		"dead letters":          {s.g.count(t, "select count(*) from once_deadletter where consumer = ? and state = 'dead'", s.consumer), letters},
		"of them not poison":    {s.g.count(t, "select count(*) from once_deadletter where consumer = ? and event_type <> 'poison'", s.consumer), 0},
		"messages that wait":    {s.g.parked(t), waiting},
		"positions with poison": {s.g.count(t, "select count(*) from once_inbox_position where consumer = ? and dead", s.consumer), letters * min(waiting, 1)},
	} {
		if c.got != c.want {
			t.Errorf("%d %s, want %d", c.got, what, c.want)
		}
	}
}
