package saga_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

// told are events and measurements, in words and in order.
type told struct {
	mu     sync.Mutex
	events []string
	counts []string
	zeros  []string
}

func (l *told) Observe(ctx context.Context, e saga.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Type == saga.EventDefined {
		return
	}
	if ctx.Err() != nil || e.Saga != "test" || e.ID != sagaID {
		l.events = append(l.events, "an event of another saga, or at the end of its context")
	}
	said := string(e.Type)
	if e.Type == saga.EventRetried {
		said += " " + e.Step + " " + e.StepKey
	}
	if e.Undo {
		said += " undo"
	}
	if e.Tries > 1 {
		said += " again"
	}
	if f := failureOf(e.Err); f != "" {
		said += ": " + f
	}
	l.events = append(l.events, said)
}

func (l *told) Record(_ context.Context, m instrument.Measurement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := &l.counts
	if m.Value == 0 {
		list = &l.zeros
	}
	*list = append(*list, instrument.All[m.ID].Name+" "+strings.Join(m.Labels[:2], " "))
}

// ofUnreliable is a step that fails so often, and so does its undo.
func ofUnreliable(name string, does, undoes int) *saga.TxStep[*memstore.Tx, string, string] {
	fails := func(n *int) error {
		if *n--; *n >= 0 {
			return errors.New("down")
		}
		return nil
	}
	return saga.Tx(name, func(_ context.Context, _ *memstore.Tx, in string) (string, error) { return in, fails(&does) }).
		Undo(func(context.Context, *memstore.Tx, string, string) error { return fails(&undoes) })
}

// TestEventsOfASagaAndItsSteps: the observer of a runner is told what has become of a saga and of its steps, each once, and the counters are told without the keys
// of steps, and begin at 0 with the runner. The counts of the runner are the same.
func TestEventsOfASagaAndItsSteps(t *testing.T) {
	no := failing("no", func() error { return &once.Failure{Code: "no"} })
	for name, c := range map[string]struct {
		step   *saga.TxStep[*memstore.Tx, string, string]
		then   *saga.TxStep[*memstore.Tx, string, string]
		events []string
		counts []string
		stats  saga.Stats
	}{
		"completed": {
			ofUnreliable("a", 2, 0), writes("b"),
			[]string{"retried a k", "taken", "retried a k again", "taken", "completed"},
			[]string{"once_saga_retries_total test a", "once_saga_retries_total test a", "once_sagas_total test completed"},
			saga.Stats{Completed: 1, Taken: 2},
		},
		"compensated": {
			ofUnreliable("a", 0, 1), no,
			[]string{"retried a k undo", "turned: no", "taken", "compensated"},
			[]string{"once_saga_retries_total test a", "once_sagas_total test compensated"},
			saga.Stats{Compensated: 1, Taken: 1},
		},
		"stuck": {
			ofUnreliable("a", 0, 3), no,
			[]string{"retried a k undo", "turned: no", "taken", "retried a k undo again", "taken", "stuck"},
			[]string{"once_saga_retries_total test a", "once_saga_retries_total test a", "once_sagas_total test stuck"},
			saga.Stats{Stuck: 1, Taken: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(g fixture) {
				all := &told{}
				g.observer = saga.Observers(all, saga.Metrics(all))
				d := saga.New("test", func(ctx saga.Context, in string) (string, error) {
					if _, err := c.step.DoKey(ctx, "k", in); err != nil {
						return "", err
					}
					return inOrder(ctx, in, c.then)
				}, c.step, c.then)
				r := g.runner(d)
				zeros := []string{"once_saga_retries_total test the flow", "once_sagas_total test completed", "once_sagas_total test compensated", "once_sagas_total test stuck", "once_saga_retries_total test a"}
				if len(all.zeros) != 6 || !slices.Equal(all.zeros[:5], zeros) {
					g.Errorf("counters that begin: %q", all.zeros)
				}
				_, _ = saga.Do(g.Context(), r, d, sagaID, "") // its end is among the events
				if !slices.Equal(all.events, c.events) || !slices.Equal(all.counts, c.counts) || r.Stats() != c.stats {
					g.Errorf("%q\n%q\n%+v", all.events, all.counts, r.Stats())
				}
			})
		})
	}
}

// TestLogOfAStuckSaga: a stuck saga is an error in the log, what is tried again a warning, and what is in order is not there. By default it is that of
// [slog.Default].
func TestLogOfAStuckSaga(t *testing.T) {
	var b bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	in(t, func(g fixture) {
		g.observer = nil
		a, no := ofUnreliable("a", 1, 9), failing("no", func() error { return &once.Failure{Code: "no"} })
		_, err := g.do(saga.New("test", flowOf(a, no), a, no))
		g.wantStuck(err)
	})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := []string{
		`level=WARN msg="a step of a saga has failed and is tried again" saga=test scope=saga/acme key=order-42 step=a tries=1 error=down`,
		`level=WARN msg="the undo of a step of a saga has failed and is tried again" saga=test scope=saga/acme key=order-42 step=a tries=1 error=down`,
		`level=WARN msg="the undo of a step of a saga has failed and is tried again" saga=test scope=saga/acme key=order-42 step=a tries=2 error=down`,
		`level=ERROR msg="a saga is stuck until an operator decides" saga=test scope=saga/acme key=order-42 why="the undo of step \"a\" has failed 3 times, and the last error is: down"`,
	}
	for i := range lines {
		_, lines[i], _ = strings.Cut(lines[i], " ") // its time
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%s", b.String())
	}
}
