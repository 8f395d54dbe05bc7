package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/message"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// waitsOf is what a topic waits for, in short: "down", "failing k".
func waitsOf(list []outbox.Topic, name string) string {
	var words []string
	for _, t := range list {
		for _, w := range t.Waits {
			if t.Name == name {
				words = append(words, strings.TrimSpace(string(w.For)+" "+w.Key))
			}
		}
	}
	return strings.Join(words, ", ")
}

// topicsUntil returns the topics as soon as is is true of them.
func (g *fixture[TX]) topicsUntil(t *testing.T, what string, is func([]outbox.Topic) bool) []outbox.Topic {
	t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		list, err := g.box.Topics(t.Context())
		must(t, err)
		if is(list) {
			return list
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not told: %+v", what, list)
		}
	}
}

// TestTopicsShowTheirOldestMessage: for each topic it is told how old its oldest message is that could go, and what the others wait for: also from the database alone,
// while no relay runs.
func TestTopicsShowTheirOldestMessage(t *testing.T) {
	testenv.Both(t)
	on(t, testTopics[pgx.Tx], testTopics[*sql.Tx])
}

func testTopics[TX any](t *testing.T, g *fixture[TX]) {
	aged := func(topic, key string, age time.Duration) string {
		m, id := withID(event(topic, key, "t"))
		g.mustAdd(t, m)
		g.exec(t, "update once_outbox set created_at = AGO(?) where event_id = ?", age.Microseconds(), id)
		return id
	}
	const hours = time.Hour
	aged("fine", "", 2*hours)
	aged("fine", "k", 1*hours)
	g.failed(t, aged("keys", "bad", 9*hours), "NOW") // what follows waits for it, and what has another key does not
	aged("keys", "bad", 8*hours)
	aged("keys", "good", 3*hours)
	g.failed(t, aged("stopped", "", 9*hours), "null")
	aged("paused", "a", 9*hours)
	aged("held", "a", 9*hours)
	aged("held", "b", 4*hours)
	must(t, g.box.By("ada", "repaired").Pause(t.Context(), "paused", "", "repaired"))
	must(t, g.box.Pause(t.Context(), "held", "a", "asked"))
	must(t, g.box.Pause(t.Context(), "empty", "", "a name that is wrong"))
	list, err := g.box.Topics(t.Context())
	must(t, err)
	var got []string
	for _, at := range list {
		age := func(of time.Time) int {
			if of.IsZero() {
				return 0
			}
			return int(at.Now.Sub(of).Hours())
		}
		got = append(got, fmt.Sprintf("%s %d %d (%s)", at.Name, age(at.Oldest), age(at.Ready), waitsOf(list, at.Name)))
	}
	want := []string{"empty 0 0 (paused)", "fine 2 2 ()", "held 9 4 (paused a)", "keys 9 3 (failing bad)", "paused 9 0 (paused)", "stopped 9 0 (failing)"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, at := range list {
		for _, w := range at.Waits {
			if w.Since.IsZero() || w.Reason == "" || w.For == outbox.WaitFailing && (w.Messages != 1 || (w.Stopped == 1) != (at.Name == "stopped")) {
				t.Errorf("%s: %+v", at.Name, w)
			}
		}
	}
}

// TestTopicsUpTo: a bound of rows makes pages of topics, of which each has a topic as a whole, and none is left out. What is counted up to a bound says so.
func TestTopicsUpTo(t *testing.T) {
	testenv.Both(t)
	on(t, testTopicsUpTo[pgx.Tx], testTopicsUpTo[*sql.Tx])
}

func testTopicsUpTo[TX any](t *testing.T, g *fixture[TX]) {
	const topics, keys = 24, 12 // of each topic, in four queues
	want := map[string]string{}
	for i := range topics {
		name := fmt.Sprintf("topic%02d", i)
		for k := range keys {
			m, id := withID(event(name, fmt.Sprintf("k%d", k), "t"))
			g.mustAdd(t, m)
			if k == 0 && i%2 == 0 {
				g.failed(t, id, "NOW")
			}
		}
		if want[name] = ""; i%2 == 0 {
			want[name] = "failing"
		}
	}
	for k := range 60 {
		must(t, g.box.Pause(t.Context(), "many", fmt.Sprintf("k%02d", k), "asked"))
	}
	must(t, g.box.Pause(t.Context(), "topic99", "", "asked"))
	want["many"], want["topic99"] = "paused", "paused"
	for _, most := range []int{350, 2000} {
		got := map[string]string{}
		pages := 0
		for after := ""; ; pages++ {
			list, next, err := g.box.TopicsUpTo(t.Context(), after, most)
			must(t, err)
			if len(list) == 0 && next != "" || next != "" && next <= after {
				t.Fatalf("a page behind %q has %d topics and leads to %q", after, len(list), next)
			}
			for _, at := range list {
				if _, twice := got[at.Name]; twice || at.Name != "many" && at.Name != "topic99" && at.Oldest.IsZero() {
					t.Errorf("%d rows: %+v", most, at)
				}
				got[at.Name], _, _ = strings.Cut(waitsOf(list, at.Name), " ") // of some topics it is not known which key fails
				for _, w := range at.Waits {
					if at.Name == "many" && (w.More != (most == 350) || most == 2000 && w.Messages != 60) {
						t.Errorf("%d rows: %+v", most, w)
					}
				}
			}
			if after = next; next == "" {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d rows: %v, want %v", most, got, want)
		}
		if (pages > 0) != (most == 350) {
			t.Errorf("%d rows: %d pages", most, pages+1)
		}
	}
}

// TestBlockedMessagesAreListedByKey: what waits behind failed messages is listed by key, in pages that read a bounded number of failures, and none is left out but what is
// behind the first 25 of a key.
func TestBlockedMessagesAreListedByKey(t *testing.T) {
	testenv.Both(t)
	on(t, testBlocked[pgx.Tx], testBlocked[*sql.Tx])
}

func testBlocked[TX any](t *testing.T, g *fixture[TX]) {
	var want []string
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		m, id := withID(event("refunds", key, "t"))
		g.mustAdd(t, m)
		if key != "c" { // its messages wait for nothing
			g.failed(t, id, "null")
		}
		behind := 2
		if key == "d" {
			behind = 30
		}
		for i := range behind {
			m, id := withID(event("refunds", key, "t"))
			g.mustAdd(t, m)
			switch {
			case key == "e" && i == 0:
				g.failed(t, id, "NOW") // it is no blocked one
			case key != "c" && i < 25:
				want = append(want, id)
			}
		}
	}
	m, id := withID(event("mails", "", "t"))
	g.mustAdd(t, m)
	g.failed(t, id, "null") // without a key nothing waits behind it
	for _, c := range []struct{ limit, most int }{{50, 1000}, {3, 1000}, {50, 4}, {1, 2}} {
		for _, topic := range []string{"", "refunds"} {
			var got []string
			for after := ""; ; {
				list, next, err := g.box.Blocked(t.Context(), topic, after, c.limit, c.most)
				must(t, err)
				for _, e := range list {
					if got = append(got, e.ID); e.State != outbox.StateBlocked {
						t.Errorf("%+v", e)
					}
				}
				if next != "" && next == after {
					t.Fatalf("the pages do not end: %q", next)
				}
				if after = next; next == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v, %q: %d messages, want %d: %v", c, topic, len(got), len(want), got)
			}
		}
	}
	if list, next, err := g.box.Blocked(t.Context(), "mails", "", 50, 1000); err != nil || len(list) > 0 || next != "" {
		t.Errorf("%v, %q, %v", list, next, err)
	}
	if _, _, err := g.box.Blocked(t.Context(), "", "x", 50, 1000); err == nil || !strings.Contains(err.Error(), "Try: ") {
		t.Error(err)
	}
}

// TestRelayTellsOfTopics: what only a relay knows is told to all who ask the database, while it lives: a destination that is down, one that
// does not answer, and a rate. When that is over, nothing is told any more.
func TestRelayTellsOfTopics(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testRelayTellsOfTopics[pgx.Tx], testRelayTellsOfTopics[*sql.Tx])
}

func testRelayTellsOfTopics[TX any](t *testing.T, g *fixture[TX]) {
	b := newInbox()
	up := make(chan struct{})
	publisher := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		errs := make([]error, len(messages))
		switch messages[0].Topic {
		case "down":
			select {
			case <-up:
			default:
				for i := range errs {
					errs[i] = outbox.Unavailable(errors.New("nobody listens"))
				}
				return errs
			}
		case "hangs":
			<-up
		}
		return b.Publish(ctx, messages)
	})
	for i := range 40 {
		g.mustAdd(t, event("down", fmt.Sprint(i), "t"), event("fine", fmt.Sprint(i), "t"), event("slow", fmt.Sprint(i), "t"), event("hangs", fmt.Sprint(i), "t"))
	}
	stop := start(t, g.relay(publisher, outbox.RelayConfig{Topics: map[string]outbox.TopicConfig{"slow": {Rate: 0.01}, "hangs": {Concurrency: 1}}}))
	list := g.topicsUntil(t, "what relays know", func(list []outbox.Topic) bool {
		return waitsOf(list, "down") == "down" && waitsOf(list, "slow") == "rate" && waitsOf(list, "hangs") == "hanging"
	})
	if got := waitsOf(list, "fine"); got != "" {
		t.Errorf("a healthy topic waits for %s", got)
	}
	for _, at := range list {
		if len(at.Waits) == 1 && (!at.Ready.IsZero() || at.Waits[0].Since.IsZero() || at.Waits[0].Since.After(at.Now) || at.Waits[0].Node == "" ||
			(at.Waits[0].For == outbox.WaitDown) != (at.Waits[0].Reason == "nobody listens")) {
			t.Errorf("%+v", at)
		}
	}
	told := []string{"once_outbox_wait", "once_hold_node"}
	for _, table := range told {
		g.exec(t, "create table told_"+table+" as select * from "+table)
	}
	close(up)
	g.topicsUntil(t, "that the destinations are back", func(list []outbox.Topic) bool { return waitsOf(list, "down")+waitsOf(list, "hangs") == "" })
	must(t, stop())
	if n := g.count(t, "select count(*) from once_outbox_wait"); n > 0 {
		t.Errorf("%d rows are left of a relay that has ended", n)
	}
	// As if the relay had been killed while it waited: its rows are still there, and they count until it would have renewed its own.
	g.mustAdd(t, event("down", "", "t"))
	g.exec(t, "delete from once_hold_node")
	for _, table := range told {
		g.exec(t, "insert into "+table+" select * from told_"+table)
	}
	for _, c := range []struct {
		ago  time.Duration
		want string
	}{{-time.Hour, "down"}, {time.Hour, ""}} {
		g.exec(t, "update once_hold_node set expires = AGO(?)", c.ago.Microseconds())
		if list, err := g.box.Topics(t.Context()); err != nil || waitsOf(list, "down") != c.want {
			t.Errorf("the relay's time is over since %v: %+v, %v; want %q", c.ago, list, err, c.want)
		}
	}
}

// TestTopicsReadLittle: what is read to tell how topics stand does not grow with the messages that wait, on each database: it goes from
// one topic and part to the next.
func TestTopicsReadLittle(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, testTopicsReadLittle[pgx.Tx], testTopicsReadLittle[*sql.Tx])
}

func testTopicsReadLittle[TX any](t *testing.T, g *fixture[TX]) {
	const doubled = 12 // 16,384 messages of a topic
	columns := "part, topic, KEY, event_id, event_type, source, headers, payload, encrypted, trace, created_at"
	for _, topic := range []string{"down", "failing"} {
		g.mustAdd(t, event(topic, "", "t"), event(topic, "", "t"), event(topic, "", "t"), event(topic, "", "t"))
		for range doubled {
			g.exec(t, "insert into once_outbox ("+columns+") select (id + 1) % 4, topic, KEY, event_id, event_type, source, headers, payload, encrypted, trace, created_at from once_outbox where topic = ?", topic)
		}
	}
	g.exec(t, "insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error) select part, id, topic, KEY, 1, NOW, NOW, 'e' from once_outbox where topic = 'failing'")
	g.mustAdd(t, event("fine", "k", "t"))
	w := &queryStore[TX]{SQL: g.store}
	list, err := outbox.New(w, outbox.Config{}).Topics(t.Context())
	must(t, err)
	if len(list) != 3 || waitsOf(list, "failing") != "failing" {
		t.Errorf("%+v", list)
	}
	for _, s := range w.statements {
		plan := g.plan(t, s)
		for _, all := range []string{"Seq Scan on once_outbox ", "Seq Scan on once_outbox_failed", "SCAN once_outbox\n", "SCAN once_outbox_failed\n", "hashed SubPlan"} {
			if strings.Contains(plan+"\n", all) {
				t.Errorf("%s\nreads or sorts all:\n%s", s.SQL, plan)
			}
		}
		if (strings.Contains(s.SQL, "group by topic, part") || strings.Contains(s.SQL, "distinct topic")) && !strings.Contains(plan, "index_for_group_by") && !strings.Contains(plan, "skip scan") {
			t.Errorf("%s\nhas no loose scan:\n%s", s.SQL, plan)
		}
		if read, most := buffersOf(plan), 6000; read > most {
			t.Errorf("%s\nreads %d buffers, want %d at most:\n%s", s.SQL, read, most, plan)
		}
	}
}

// queryStore notes what is read.
type queryStore[TX any] struct {
	sqlplane.SQL[TX]

	statements []store.Statement
}

func (s *queryStore[TX]) Pool() sqlplane.Runner { return queryRunner[TX]{s.SQL.Pool(), s} }

type queryRunner[TX any] struct {
	sqlplane.Runner

	s *queryStore[TX]
}

func (r queryRunner[TX]) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	r.s.statements = append(r.s.statements, st)
	return r.Runner.Query(ctx, st, each)
}

// buffersRead is what PostgreSQL says of the buffers of a statement.
var buffersRead = regexp.MustCompile(`Buffers: shared (?:hit=(\d+))?(?: read=(\d+))?`)

// plan is how the database runs a statement.
func (g *fixture[TX]) plan(t *testing.T, s store.Statement) string {
	t.Helper()
	explain := map[sqlplane.Dialect]string{sqlplane.PostgreSQL: "explain (analyze, buffers) ", sqlplane.SQLite: "explain query plan ", sqlplane.MySQL: "explain format=json "}[g.store.Dialect()]
	var lines []string
	must(t, g.store.Pool().Query(t.Context(), store.Statement{SQL: explain + s.SQL, Args: s.Args}, func(row sqlplane.Row) error {
		var line string
		var err error
		switch g.store.Dialect() {
		case sqlplane.PostgreSQL:
			err = row.Scan(&line)
		case sqlplane.SQLite:
			var n [3]int
			err = row.Scan(&n[0], &n[1], &n[2], &line)
		default:
			err = row.Scan(&line)
		}
		lines = append(lines, line)
		return err
	}))
	return strings.Join(lines, "\n")
}

// buffersOf is how many buffers a plan of PostgreSQL has read.
func buffersOf(plan string) (n int) {
	if m := buffersRead.FindStringSubmatch(plan); m != nil { // the first line is that of the whole statement
		for _, s := range m[1:] {
			one, _ := strconv.Atoi(s)
			n += one
		}
	}
	return n
}

// TestRelayTellsThatATopicIsFull: when so many messages of a topic are tried again that no others of it are read, that is told, and others
// go on. When they are delivered, it is over, and the others of the topic follow.
func TestRelayTellsThatATopicIsFull(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	t.Run(harness.Pgx, func(t *testing.T) {
		harness.Cell(t, false)
		t.Parallel()
		testRelayTellsThatATopicIsFull(t, newPgx(t))
	})
	t.Run(harness.SQLite, func(t *testing.T) {
		harness.Cell(t, true)
		t.Parallel()
		testRelayTellsThatATopicIsFull(t, newSQL(t, harness.SQLite))
	})
}

func testRelayTellsThatATopicIsFull[TX any](t *testing.T, g *fixture[TX]) {
	const n = 1500
	var list []message.Message
	for i := range n {
		list = append(list, event("full", fmt.Sprint(i), "t"))
	}
	g.mustAdd(t, list...)
	b := newInbox()
	var mended atomic.Bool
	b.setRefuse(func(m message.Message) error {
		if m.Topic == "full" && !mended.Load() {
			return errRefused
		}
		return nil
	})
	// An outage would be told where all of a first batch fail: here some do, and then others.
	stop := start(t, g.relay(b, outbox.RelayConfig{Batch: 10, Policy: &retry.Policy{Attempts: forever, Base: 200 * time.Millisecond, Cap: 500 * time.Millisecond, Total: -1}}))
	g.topicsUntil(t, "that the topic is full", func(list []outbox.Topic) bool { return strings.Contains(waitsOf(list, "full"), "full") })
	g.mustAdd(t, event("fine", "", "t"))
	b.wait(t, "a message of another topic", func([]message.Message) bool { return b.typesOf("fine") == 1 })
	mended.Store(true)
	b.wait(t, "all messages of the topic", func([]message.Message) bool { return b.typesOf("full") == n })
	g.topicsUntil(t, "that it is over", func(list []outbox.Topic) bool { return waitsOf(list, "full") == "" })
	must(t, stop())
}
