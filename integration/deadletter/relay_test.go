package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// destination is where a relay delivers.
type destination struct {
	mu     sync.Mutex
	broken error // of every message whose key is "bad"
	got    []string
}

// Publish implements outbox.Publisher.
func (d *destination) Publish(_ context.Context, messages []message.Message) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := make([]error, len(messages))
	for i, m := range messages {
		if m.Key == "bad" && d.broken != nil {
			errs[i] = d.broken
			continue
		}
		d.got = append(d.got, fmt.Sprintf("%s %d %s", m.Key, m.Seq, m.Type))
	}
	return errs
}

func (d *destination) set(broken error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

func (d *destination) arrived() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.got...)
}

// eventually waits until got returns want.
func eventually(t *testing.T, wanted any, got func() any) {
	t.Helper()
	var last any
	for until := time.Now().Add(patience); time.Now().Before(until); breathe() {
		if last = got(); fmt.Sprint(last) == fmt.Sprint(wanted) {
			return
		}
	}
	t.Fatalf("%v, want %v", last, wanted)
}

// breathe leaves the machine to others for a moment.
func breathe() { <-time.After(10 * time.Millisecond) }

// inBackground runs fn until the test ends.
func inBackground(t *testing.T, fn func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// TestRelayLetters: a relay keeps every failed delivery and makes a letter of a message that it gives up. The message stays
// at the head of its key. A redrive has it delivered and resolves the letter, and so does a discard with a marker.
func TestRelayLetters(t *testing.T) {
	testenv.Prove(t)
	on(t, testRelayLetters)
}

func testRelayLetters(t *testing.T, g *fixture) {
	messages := func(from, to int) {
		for seq := from; seq <= to; seq++ {
			for _, key := range []string{"bad", "good"} {
				g.exec(t, `insert into once_outbox (part, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) values (?, 't', ?, ?, ?, 'e', 's', ?, ?, ?, 'trace', NOW)`,
					int64(len(key)), key, int64(seq), fmt.Sprintf("01945a00-0000-7000-8000-%08d%04d", len(key), seq), []byte{}, []byte("x"), false)
			}
		}
	}
	messages(1, 3)
	to := &destination{broken: errors.New("answer 503 of node 17")}
	policy := &retry.Policy{Attempts: 2, Base: time.Millisecond, Cap: time.Millisecond, Total: -1}
	relay := g.box.Relay(to, outbox.RelayConfig{DeadLetters: true, Policy: policy, Node: "node", Observer: outbox.Log(nil)})
	inBackground(t, relay.Run)

	state := func() any {
		list, _, err := g.letters().List(t.Context(), deadletter.Filter{})
		must(t, err)
		var shown []string
		for _, l := range list {
			shown = append(shown, fmt.Sprintf("%s %s/%s %d %s %d %s", l.Origin, l.Topic, l.Key, l.Seq, l.Class, l.Attempts, l.Cause))
		}
		return shown
	}
	const stopped = "select count(*) from once_outbox_failed where next_at is null"
	eventually(t, 1, func() any { return g.count(t, stopped) })
	want(t, state(), "[outbox t/bad 1 exhausted 2 answer # of node #]") // in the same commit
	eventually(t, "[good 1 e good 2 e good 3 e]", func() any { return to.arrived() })
	list, _, err := g.letters().List(t.Context(), deadletter.Filter{})
	must(t, err)
	_, attempts, err := g.letters().Show(t.Context(), list[0].UID)
	must(t, err)
	want(t, []any{len(attempts), attempts[1].Number, attempts[1].Node, attempts[1].Trace, attempts[1].Error}, []any{2, 2, "node", "trace", "answer 503 of node 17"})

	r := g.redrive(t, deadletter.Filter{}, signed) // the destination is still broken
	eventually(t, "done total 1 waiting 0 applied 0 failed 1 discarded 0", func() any { return g.progress(t, r.UID) })
	eventually(t, "[outbox t/bad 1 exhausted 3 answer # of node #]", state)

	to.set(nil)
	r = g.redrive(t, deadletter.Filter{Origin: "outbox"}, signed)
	eventually(t, 0, func() any { return g.count(t, "select count(*) from once_outbox") })
	want(t, g.progress(t, r.UID), "done total 1 waiting 0 applied 1 failed 0 discarded 0") // in the same commit
	eventually(t, "[good 1 e good 2 e good 3 e bad 1 e bad 2 e bad 3 e]", func() any { return to.arrived() })

	to.set(retry.Permanent(errors.New("unknown field")))
	messages(4, 5)
	eventually(t, 1, func() any { return g.count(t, stopped) })
	want(t, state(), "[outbox t/bad 4 permanent 1 unknown field]")
	n, err := g.letters().Discard(t.Context(), deadletter.Filter{}, "ada", "no one needs it")
	must(t, err)
	want(t, n, 1)
	to.set(nil)
	eventually(t, "bad 4 once.skipped", func() any {
		for _, m := range to.arrived() {
			if m == "bad 4 once.skipped" {
				return m
			}
		}
		return ""
	})
	eventually(t, 0, func() any {
		return g.count(t, "select count(*) from once_outbox") + g.count(t, "select count(*) from once_outbox_failed")
	})
	all := to.arrived()
	want(t, []any{len(all), g.count(t, "select count(*) from once_deadletter where state = 'discarded' and reason = 'no one needs it'")}, []any{10, 1})
}
