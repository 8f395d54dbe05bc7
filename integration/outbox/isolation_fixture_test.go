package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// onIsolated runs a scenario on pgxstore in make test. make prove draws other stores by lot.
func onIsolated(t *testing.T, onPgx func(*testing.T, *fixture[pgx.Tx]), onSQL func(*testing.T, *fixture[*sql.Tx])) {
	t.Helper()
	t.Run(harness.Pgx, func(t *testing.T) {
		testenv.Cell(t, testenv.InTest)
		t.Parallel()
		onPgx(t, newPgx(t))
	})
	for _, kind := range harness.SQL {
		t.Run(kind, func(t *testing.T) {
			harness.Cell(t, false)
			t.Parallel()
			onSQL(t, newSQL(t, kind))
		})
	}
}

// The topic that nothing may delay, and how many messages it gets, one after the other.
const (
	healthyTopic = "healthy"
	healthyEach  = 40
)

// isolation is an outbox of which a relay delivers a healthy topic beside topics in trouble. The relay does not know when
// messages are added: it has a Box of its own.
type isolation[TX any] struct {
	t  *testing.T
	g  *fixture[TX]
	w  *countedStore[TX]
	to *street
}

func isolate[TX any](t *testing.T, g *fixture[TX]) *isolation[TX] {
	t.Helper()
	to := &street{inbox: newInbox(), behave: map[string]behavior{}, attempts: map[string]int{}, calls: map[string]int{}, underWay: map[string]int{}, most: map[string]int{}, ended: make(chan struct{})}
	i := &isolation[TX]{t, g, &countedStore[TX]{SQL: g.store, rows: map[string]int{}}, to}
	t.Cleanup(to.end) // before the relay is stopped: cleanups run in reverse
	return i
}

// start runs the relay. Its batches are small, so that a small backlog is many of them.
func (i *isolation[TX]) start(cfg outbox.RelayConfig) (stop func() error) {
	i.t.Helper()
	if cfg.Batch == 0 {
		cfg.Batch = isolationBatch
	}
	if cfg.Policy == nil {
		cfg.Policy = soon(forever)
	}
	if cfg.Observer == nil {
		cfg.Observer = newEvents()
	}
	stop = start(i.t, i.g.relayOf(outbox.New[TX](i.w, outbox.Config{}), i.to, cfg))
	i.t.Cleanup(i.to.end)
	return stop
}

const isolationBatch = 100

// size is how large a backlog is. MySQL takes its messages one by one.
func (i *isolation[TX]) size(n int) int {
	if i.g.store.Dialect() == sqlplane.MySQL {
		return n / 4
	}
	return n
}

// add adds n messages to a topic; of each ten, five have one of a hundred keys.
func (i *isolation[TX]) add(topic string, n int) {
	i.t.Helper()
	i.addKeyed(n, func(k int) message.Message {
		key := ""
		if k%2 == 0 {
			key = fmt.Sprintf("k%d", k/2%100)
		}
		return event(topic, key, "t")
	})
}

// addKeyed adds n messages in transactions of at most 1000.
func (i *isolation[TX]) addKeyed(n int, of func(k int) message.Message) {
	i.t.Helper()
	var list []message.Message
	for k := range n {
		if list = append(list, of(k)); len(list) == 1000 || k == n-1 {
			i.g.mustAdd(i.t, list...)
			list = nil
		}
	}
}

// neighbor adds n healthy messages with and without keys, each when the one before it has arrived. If spent grows by more than most while they are on
// their way, the trouble has delayed them.
func (i *isolation[TX]) neighbor(n int, spent func() int, most int, what string) {
	i.t.Helper()
	before, all := i.to.delivered(healthyTopic), 0
	for k := range n {
		key := ""
		if k%2 == 0 {
			key = fmt.Sprint(k / 2 % 16)
		}
		i.g.mustAdd(i.t, event(healthyTopic, key, "t"))
		from := spent() // a machine may take long to add a message, and the trouble goes on meanwhile
		i.to.wait(i.t, fmt.Sprintf("healthy message %d of %d", k+1, n), func() bool {
			if s := all + spent() - from; s > most {
				i.t.Fatalf("healthy message %d of %d has not arrived after %d %s, want at most %d for all", k+1, n, s, what, most)
			}
			return i.to.delivered(healthyTopic) > before+k
		})
		all += spent() - from
	}
}

// resume resumes topics until n messages have arrived. Once is not enough: the failure of a delivery that was under way may be written down later.
func (i *isolation[TX]) resume(n int, topics ...string) {
	i.t.Helper()
	harness.Until(i.t, func() error {
		for _, topic := range topics {
			if _, err := i.g.box.Resume(i.t.Context(), topic, ""); err != nil {
				return err
			}
		}
		if got := len(i.to.arrived()); got < n {
			return fmt.Errorf("%d messages of %d have arrived", got, n)
		}
		return nil
	})
}

// noLimit is for trouble that does nothing while it lasts.
func noLimit() int { return 0 }

// behavior answers for a topic that is in trouble. nil answers deliver the message.
type behavior func(ctx context.Context, messages []message.Message) []error

// street is a destination with a house for each kind of topic: what stands before the first "-" of its name.
type street struct {
	*inbox

	mu       sync.Mutex
	behave   map[string]behavior
	attempts map[string]int // messages, by kind
	calls    map[string]int
	underWay map[string]int // calls, by topic
	most     map[string]int
	mixed    int // calls with messages of several topics

	ending sync.Once
	ended  chan struct{} // a destination that hangs gives up
}

func topicKind(topic string) string { kind, _, _ := strings.Cut(topic, "-"); return kind }

func (s *street) end() { s.ending.Do(func() { close(s.ended) }) }

// set says how topics of a kind behave from now on; nil: well.
func (s *street) set(kind string, b behavior) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behave[kind] = b
}

// Publish implements outbox.Publisher.
func (s *street) Publish(ctx context.Context, messages []message.Message) []error {
	topic := messages[0].Topic
	kind := topicKind(topic)
	s.mu.Lock()
	for _, m := range messages {
		if m.Topic != topic {
			s.mixed++
		}
	}
	behave := s.behave[kind]
	s.attempts[kind] += len(messages)
	s.calls[kind]++
	s.underWay[topic]++
	s.most[topic] = max(s.most[topic], s.underWay[topic])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.underWay[topic]--
	}()
	if behave == nil {
		return s.inbox.Publish(ctx, messages)
	}
	s.announce()
	errs := behave(ctx, messages)
	if errs == nil {
		return s.inbox.Publish(ctx, messages)
	}
	failed := map[string]error{}
	for k, m := range messages {
		switch {
		case m.Key != "" && failed[m.Key] != nil:
			errs[k] = failed[m.Key]
		case errs[k] != nil:
			failed[m.Key] = errs[k]
		default:
			s.inbox.Publish(ctx, messages[k:k+1])
		}
	}
	return errs
}

// announce wakes those that wait for an attempt.
func (s *street) announce() {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait waits until done says so: it is asked after each call of Publish has begun, and after each delivery.
func (s *street) wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		s.inbox.mu.Lock()
		changed := s.changed
		s.inbox.mu.Unlock()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited too long for %s: %s", what, s)
		}
	}
}

// delivered is how many messages of a topic have arrived.
func (s *street) delivered(topic string) int {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	return s.typesOf(topic)
}

func (s *street) attempted(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[kind]
}

func (s *street) called(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[kind]
}

// now is how many calls of Publish are under way of topics of a kind.
func (s *street) now(kind string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, calls := range s.underWay {
		if topicKind(topic) == kind {
			n += calls
		}
	}
	return n
}

// String says what has happened so far.
func (s *street) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d messages have arrived, attempts %v in calls %v", len(s.arrived()), s.attempts, s.calls)
}

// checkCalls reports calls that mix topics, and topics with more calls at once than they may have.
func (s *street) checkCalls(t *testing.T, most int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mixed > 0 {
		t.Errorf("%d messages shared a call with another topic", s.mixed)
	}
	for topic, n := range s.most {
		if n > most {
			t.Errorf("%s had %d calls of Publish at once, want at most %d", topic, n, most)
		}
	}
}

// down refuses everything as unavailable.
func down(_ context.Context, messages []message.Message) []error {
	return answer(messages, outbox.Unavailable(errRefused))
}

// fails refuses everything with an error of the message.
func fails(_ context.Context, messages []message.Message) []error {
	return answer(messages, errRefused)
}

func answer(messages []message.Message, err error) []error {
	errs := make([]error, len(messages))
	for k := range errs {
		errs[k] = err
	}
	return errs
}

// hangs answers nothing until release is closed, or the test ends. It does not care for its context.
func (s *street) hangs(release <-chan struct{}) behavior {
	return func(context.Context, []message.Message) []error {
		select {
		case <-release:
		case <-s.ended:
		}
		return nil
	}
}

// countedStore counts what a relay does: its statements, and the messages that it reads of each kind of topic.
type countedStore[TX any] struct {
	sqlplane.SQL[TX]

	statements atomic.Int64 // that read or settle messages

	mu   sync.Mutex
	rows map[string]int
}

func (s *countedStore[TX]) Pool() sqlplane.Runner { return countedRunner[TX]{s.SQL.Pool(), s} }

// read is how many messages were read of each kind.
func (s *countedStore[TX]) read() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rows)
}

type countedRunner[TX any] struct {
	sqlplane.Runner

	s *countedStore[TX]
}

func (r countedRunner[TX]) Exec(ctx context.Context, st store.Statement) (int64, error) {
	n, err := r.Runner.Exec(ctx, st)
	if n > 0 && strings.Contains(st.SQL, "once_outbox") {
		r.s.statements.Add(1)
	}
	return n, err
}

func (r countedRunner[TX]) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	if !strings.Contains(st.SQL, "payload") {
		return r.Runner.Query(ctx, st, each)
	}
	found := false
	err := r.Runner.Query(ctx, st, func(row sqlplane.Row) error {
		found = true
		return each(countedRow[TX]{row, r.s})
	})
	if found {
		r.s.statements.Add(1)
	}
	return err
}

// countedRow is a message: the first text of it is its topic.
type countedRow[TX any] struct {
	sqlplane.Row

	s *countedStore[TX]
}

func (r countedRow[TX]) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	for _, d := range dest {
		if topic, is := d.(*string); is {
			r.s.mu.Lock()
			r.s.rows[topicKind(*topic)]++
			r.s.mu.Unlock()
			break
		}
	}
	return err
}
