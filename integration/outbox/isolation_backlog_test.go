package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
)

// TestIsolationRate: a topic with a rate gets it also if it has a large backlog, of which no more is read than may be published.
func TestIsolationRate(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onIsolated(t, testIsolationRate, testIsolationRate)
}

func testIsolationRate[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	const rate, small = 400, 1600
	i.add("large-1", i.size(12_000))
	i.add("small-1", small)
	bounds := outbox.TopicConfig{Rate: rate}
	stop := i.start(outbox.RelayConfig{Topics: map[string]outbox.TopicConfig{"large-1": bounds, "small-1": bounds}})
	i.neighbor(healthyEach, noLimit, 0, "")
	i.to.wait(t, "the small backlog", func() bool { return i.to.delivered("small-1") == small })
	got := i.to.delivered("large-1")
	must(t, stop())
	if got < small*8/10 {
		t.Errorf("a topic with a large backlog got %d messages, while another one of the same rate got %d", got, small)
	}
	if read, most := i.w.read()["large"], i.to.delivered("large-1")+2*rate; read > most {
		t.Errorf("%d messages were read, %d could be published", read, i.to.delivered("large-1"))
	}
}

// TestIsolationColdStart: what a relay reads before it delivers a topic does not depend on what is parked for others: topics
// that are down or paused, and messages that wait for a person.
func TestIsolationColdStart(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onIsolated(t, testIsolationColdStart, testIsolationColdStart)
}

func testIsolationColdStart[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	parked := i.size(6000)
	for _, topic := range []string{"down-1", "paused-1", "stopped-1"} {
		i.addKeyed(parked, func(k int) message.Message { return event(topic, "", "t") })
	}
	statement := g.text("insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error) select part, id, topic, KEY, 1, null, NOW, '' from once_outbox where topic = ?", "stopped-1")
	g.exec(t, statement.SQL, statement.Args...)
	must(t, g.box.Pause(t.Context(), "paused-1", "", "the server moves"))
	const waiting = 20
	i.addKeyed(waiting, func(int) message.Message { return event(healthyTopic, "k", "t") })
	i.to.set("down", down)
	// Each scan, turn and settlement takes some statements, whatever is parked.
	i.start(outbox.RelayConfig{})
	i.to.wait(t, "the healthy topic", func() bool { return i.to.delivered(healthyTopic) == waiting })
	read, statements := i.w.read(), i.w.statements.Load()
	for _, kind := range []string{"down", "paused", "stopped"} {
		if most := 10 * isolationBatch; read[kind] > most {
			t.Errorf("%d messages of a topic that is %s were read before the first delivery, want at most %d", read[kind], kind, most)
		}
	}
	if most := int64(100); statements > most {
		t.Errorf("%d statements before the first delivery, want at most %d", statements, most)
	}
	i.neighbor(healthyEach, noLimit, 0, "")
	if n := i.to.attempted("paused") + i.to.attempted("stopped"); n > 0 {
		t.Errorf("%d messages were tried that wait for a person", n)
	}
	i.to.set("down", nil)
	for _, topic := range []string{"paused-1", "stopped-1"} {
		_, err := g.box.Resume(t.Context(), topic, "")
		must(t, err)
	}
	all := 3*parked + waiting + healthyEach
	i.to.waitFor(t, all)
	g.waitEmpty(t)
	i.to.check(t, all)
}

// TestIsolationResume: the backlog of a topic that was paused is read like a new one, once.
func TestIsolationResume(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onIsolated(t, testIsolationResume, testIsolationResume)
}

func testIsolationResume[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	backlog := i.size(6000)
	i.start(outbox.RelayConfig{})
	drain := func(topic string, begin func()) (read int, statements int64) {
		before, statementsBefore := i.w.read()[topicKind(topic)], i.w.statements.Load()
		begin()
		i.to.wait(t, topic, func() bool { return i.to.delivered(topic) == backlog })
		return i.w.read()[topicKind(topic)] - before, i.w.statements.Load() - statementsBefore
	}
	fresh, statements := drain("fresh-1", func() { i.add("fresh-1", backlog) })
	must(t, g.box.Pause(t.Context(), "paused-1", "", "the server moves"))
	i.add("paused-1", backlog)
	i.neighbor(healthyEach, noLimit, 0, "")
	if n := i.w.read()["paused"] - i.to.attempted("paused"); n > 5*isolationBatch {
		t.Errorf("%d messages of a topic that is paused were read", n)
	}
	resumed, more := drain("paused-1", func() {
		_, err := g.box.Resume(t.Context(), "paused-1", "")
		must(t, err)
		i.neighbor(healthyEach, noLimit, 0, "")
	})
	if resumed > fresh*3/2 || more > 2*statements+4*healthyEach {
		t.Errorf("%d messages were read in %d statements for a backlog that was resumed, %d in %d for a new one", resumed, more, fresh, statements)
	}
	g.waitEmpty(t)
	i.to.check(t, 2*backlog+2*healthyEach)
}

// TestIsolationHotKey: a key with many messages, each of which takes as long as two deliveries of its neighbor, delays only itself.
func TestIsolationHotKey(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onIsolated(t, testIsolationHotKey, testIsolationHotKey)
}

func testIsolationHotKey[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	const hot = 2000
	i.addKeyed(hot, func(int) message.Message { return event("hot", "k", "t") })
	release := make(chan struct{})
	i.to.set("hot", func(context.Context, []message.Message) []error {
		before := i.to.delivered(healthyTopic)
		for i.to.delivered(healthyTopic) < before+2 {
			i.to.inbox.mu.Lock()
			changed := i.to.changed
			i.to.inbox.mu.Unlock()
			select {
			case <-changed:
			case <-release:
				return nil
			case <-i.to.ended:
				return nil
			}
		}
		return nil
	})
	i.start(outbox.RelayConfig{Batch: 10})
	i.to.wait(t, "the hot key", func() bool { return i.to.called("hot") > 0 })
	i.neighbor(healthyEach, noLimit, 0, "")
	close(release)
	i.to.waitFor(t, hot+healthyEach)
	g.waitEmpty(t)
	i.to.check(t, hot+healthyEach)
	i.to.checkCalls(t, 4)
}

// TestIsolationDrain: hundreds of topics drain in few statements, each of which is for many of them, and a healthy topic has its turn.
func TestIsolationDrain(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onIsolated(t, testIsolationDrain, testIsolationDrain)
}

func testIsolationDrain[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	const topics, each = 500, 10
	for k := range each {
		i.addKeyed(topics, func(n int) message.Message {
			return event(fmt.Sprintf("drain-%d", n), strings.Repeat("k", k%2), "t")
		})
	}
	i.start(outbox.RelayConfig{Batch: 1000})
	i.neighbor(healthyEach, noLimit, 0, "")
	const all = topics*each + healthyEach
	i.to.waitFor(t, all)
	g.waitEmpty(t)
	i.to.check(t, all)
	i.to.checkCalls(t, 4)
	if n := i.w.statements.Load() - 2*healthyEach; n > topics/2 {
		t.Errorf("%d statements for %d topics", n, topics)
	}
	if n := i.w.read()["drain"]; n > topics*each*3/2 {
		t.Errorf("%d messages were read of %d", n, topics*each)
	}
}
