package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
)

// patience bounds what should end by itself.
const patience = 60 * time.Second

// inbox is a destination in this process, and an in-order consumer.
type inbox struct {
	refuse func(m message.Message) error // before a message is taken; nil: nothing is refused

	mu      sync.Mutex
	got     []message.Message // in the order of arrival
	changed chan struct{}     // closed with the next change
}

func newInbox() *inbox { return &inbox{changed: make(chan struct{})} }

// Publish implements outbox.Publisher.
func (b *inbox) Publish(_ context.Context, messages []message.Message) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(messages))
	failed := map[string]error{}
	for i, m := range messages {
		key := m.Topic + "\x00" + m.Key
		if err := failed[key]; err != nil && m.Key != "" {
			errs[i] = err
			continue
		}
		if b.refuse != nil {
			if errs[i] = b.refuse(m); errs[i] != nil {
				failed[key] = errs[i]
				continue
			}
		}
		b.got = append(b.got, m)
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return errs
}

// setRefuse changes what is refused.
func (b *inbox) setRefuse(refuse func(m message.Message) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = refuse
}

// wait waits until what has arrived is as it should be.
func (b *inbox) wait(t *testing.T, what string, done func(got []message.Message) bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		b.mu.Lock()
		ok, changed := done(b.got), b.changed
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited too long for %s; %d messages have arrived", what, len(b.arrived()))
		}
	}
}

func (b *inbox) waitFor(t *testing.T, n int) {
	t.Helper()
	b.wait(t, fmt.Sprintf("%d messages", n), func(got []message.Message) bool { return len(got) >= n })
}

func (b *inbox) arrived() []message.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// types are the types of the messages of a key, in the order of arrival.
func (b *inbox) types(topic, key string) string {
	var list []string
	for _, m := range b.arrived() {
		if m.Topic == topic && m.Key == key {
			list = append(list, m.Type)
		}
	}
	return strings.Join(list, " ")
}

// check reports what was lost, and what an in-order consumer would have lost.
func (b *inbox) check(t *testing.T, want int) {
	t.Helper()
	last, ids := map[string]int64{}, map[string]bool{}
	for _, m := range b.arrived() {
		ids[m.ID] = true
		if m.Key == "" {
			continue
		}
		key := m.Topic + "\x00" + m.Key
		if m.Seq > last[key]+1 {
			t.Errorf("%s %s: %d comes after %d", m.Topic, m.Key, m.Seq, last[key])
		}
		last[key] = max(last[key], m.Seq)
	}
	if len(ids) != want {
		t.Errorf("%d messages of %d have arrived", len(ids), want)
	}
}

// events records what a relay tells.
type events struct {
	mu      sync.Mutex
	list    []outbox.Event
	changed chan struct{}
}

func newEvents() *events { return &events{changed: make(chan struct{})} }

// Observe implements outbox.Observer.
func (e *events) Observe(_ context.Context, event outbox.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
	close(e.changed)
	e.changed = make(chan struct{})
}

// wait waits for an event.
func (e *events) wait(t *testing.T, what string, is func(outbox.Event) bool) outbox.Event {
	t.Helper()
	timeout := time.After(patience)
	for {
		e.mu.Lock()
		i, changed := slices.IndexFunc(e.list, is), e.changed
		var found outbox.Event
		if i >= 0 {
			found = e.list[i]
		}
		e.mu.Unlock()
		if i >= 0 {
			return found
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited too long for %s: %v", what, e.list)
		}
	}
}

func (e *events) count(is func(outbox.Event) bool) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.list {
		if is(event) {
			n++
		}
	}
	return n
}

// relay returns a relay of the outbox. It keeps its parts, and waits for the destination, also when the machine is
// so busy that nothing happens for seconds: what arrives is what the test has provoked.
func (g *fixture[TX]) relay(p outbox.Publisher, cfg outbox.RelayConfig) *outbox.Relay {
	return g.relayOf(g.box, p, cfg)
}

// relayOf is relay for another outbox in the same database.
func (g *fixture[TX]) relayOf(box *outbox.Box[TX], p outbox.Publisher, cfg outbox.RelayConfig) *outbox.Relay {
	cfg.TTL, cfg.Timeout = cmp.Or(cfg.TTL, patience), cmp.Or(cfg.Timeout, patience)
	return box.Relay(p, cfg)
}

// start runs a relay until stop is called, which returns what Run does.
func start(t *testing.T, r *outbox.Relay) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("the relay does not end")
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// waitEmpty waits until nothing is in the outbox.
func (g *fixture[TX]) waitEmpty(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(2 * patience); ; {
		n := g.count(t, "select (select count(*) from once_outbox) + (select count(*) from once_outbox_failed)")
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d rows stay in the outbox: %v", n, g.rows(t))
		}
		<-time.After(5 * time.Millisecond)
	}
}

func wantNotMigrated(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), "Try: ") {
		t.Errorf("%v", err)
	}
}

// typesOf is called by wait: it counts the messages of a topic.
func (b *inbox) typesOf(topic string) (n int) {
	for _, m := range b.got {
		if m.Topic == topic {
			n++
		}
	}
	return n
}

type pgxTx = pgx.Tx

var errRefused = errors.New("refused")
