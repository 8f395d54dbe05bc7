package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// Each scenario has a topic in trouble and a healthy neighbor, whose messages must arrive before the trouble has done
// more than a bounded amount of work. Nothing is measured in time.

// TestIsolationFailing: a topic whose messages fail has at most 1000 failing ones, and delays no other topic.
func TestIsolationFailing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onIsolated(t, testIsolationFailing, testIsolationFailing)
}

func testIsolationFailing[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	sick := max(i.size(4000), 2000)
	i.add("sick", sick)
	i.to.set("sick", func(_ context.Context, messages []message.Message) []error {
		errs := answer(messages, errRefused)
		for k, m := range messages {
			if last := m.ID[len(m.ID)-1]; last == '0' || last == '1' { // one in eight arrives: the destination is there
				errs[k] = nil
			}
		}
		return errs
	})
	i.start(outbox.RelayConfig{Policy: &retry.Policy{Attempts: forever, Base: 50 * time.Millisecond, Cap: 100 * time.Millisecond, Total: -1}})
	i.to.wait(t, "the trouble", func() bool { return i.to.attempted("sick") > 2*isolationBatch })
	i.neighbor(healthyEach, func() int { return i.to.attempted("sick") }, 100_000, "attempts of a topic that fails")
	i.to.wait(t, "many failures", func() bool { return i.to.attempted("sick") > 15_000 })
	failing := g.count(t, "select count(*) from once_outbox_failed")
	if most := 1000 + 5*isolationBatch; failing > most {
		t.Errorf("%d messages of a topic are failing, want at most %d", failing, most)
	}
	i.to.checkCalls(t, 4)
	i.to.set("sick", nil)
	i.to.waitFor(t, sick+healthyEach)
	g.waitEmpty(t)
	i.to.check(t, sick+healthyEach)
}

// TestIsolationHanging: receivers that hang hold the calls of their own topics, and all of them together half of those of the
// process. Other topics go on.
func TestIsolationHanging(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onHanging(t, hanging{1, 200, true})
}

// TestIsolationManyHang is TestIsolationHanging with hundreds of topics.
func TestIsolationManyHang(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for name, h := range map[string]hanging{"new": {400, 8, false}, "were well": {400, 8, true}} {
		t.Run(name, func(t *testing.T) { t.Parallel(); onHanging(t, h) })
	}
}

func onHanging(t *testing.T, h hanging) {
	t.Helper()
	onIsolated(t, func(t *testing.T, g *fixture[pgx.Tx]) { t.Helper(); testIsolationHanging(t, g, h) },
		func(t *testing.T, g *fixture[*sql.Tx]) { t.Helper(); testIsolationHanging(t, g, h) })
}

// hanging is topics whose receivers hang.
type hanging struct {
	topics, each int
	answered     bool // before
}

func testIsolationHanging[TX any](t *testing.T, g *fixture[TX], h hanging) {
	i := isolate(t, g)
	i.start(outbox.RelayConfig{})
	i.neighbor(healthyEach, noLimit, 0, "") // a topic that has never answered may be one that hangs
	add := func(each int) {
		i.addKeyed(h.topics*each, func(k int) message.Message {
			key := ""
			if k/h.topics%2 == 0 {
				key = fmt.Sprint(k / h.topics % 4)
			}
			return event(fmt.Sprintf("hang-%d", k%h.topics), key, "t")
		})
	}
	all := h.topics*h.each + 2*healthyEach
	if h.answered {
		add(1)
		all += h.topics
		i.to.waitFor(t, healthyEach+h.topics)
	}
	release := make(chan struct{})
	i.to.set("hang", i.to.hangs(release))
	add(h.each)
	i.to.wait(t, "receivers that hang", func() bool { return i.to.now("hang") >= min(h.topics, 200) })
	i.neighbor(healthyEach, noLimit, 0, "")
	if n := i.to.now("hang"); n > 512 && !h.answered { // before they are slow, topics that were well may have more
		t.Errorf("%d calls of topics that hang are under way, want at most 512", n)
	}
	i.to.set("hang", nil)
	close(release)
	i.to.waitFor(t, all)
	g.waitEmpty(t)
	i.to.check(t, all)
	i.to.checkCalls(t, 4)
}

// TestIsolationDown: a backlog of a topic that is down is tried with one message each time, and is not read again whenever
// another topic comes back. A third topic waits for neither.
func TestIsolationDown(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onIsolated(t, testIsolationDown, testIsolationDown)
}

func testIsolationDown[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	backlog, flapping := i.size(6000), i.size(1000)
	i.add("down", backlog)
	i.add("flaps", flapping)
	i.to.set("down", down)
	calls := 0
	i.to.set("flaps", func(ctx context.Context, messages []message.Message) []error {
		i.to.mu.Lock()
		defer i.to.mu.Unlock()
		if calls++; calls%2 == 0 {
			return down(ctx, messages)
		}
		return nil
	})
	i.start(outbox.RelayConfig{})
	i.to.wait(t, "the trouble", func() bool { return i.to.called("down") > 3 && i.to.called("flaps") > 3 })
	i.neighbor(healthyEach, noLimit, 0, "")
	i.to.wait(t, "many tries", func() bool { return i.to.called("down") >= 50 })
	// What was read before the topic was known to be down: a batch for each of its calls.
	const first = 5 * isolationBatch
	read, attempts, calls := i.w.read()["down"], i.to.attempted("down"), i.to.called("down") // in this order, because all of them grow meanwhile
	if attempts > calls+first {
		t.Errorf("a topic that is down was tried with %d messages in %d calls", attempts, calls)
	}
	if read > attempts+calls+first {
		t.Errorf("%d messages of a topic that is down were read for %d attempts", read, attempts)
	}
	i.to.set("down", nil)
	i.to.set("flaps", nil)
	all := backlog + flapping + healthyEach
	i.to.waitFor(t, all)
	g.waitEmpty(t)
	i.to.check(t, all)
	if n := i.w.read()["down"]; n > 2*backlog {
		t.Errorf("%d messages were read of %d", n, backlog)
	}
	i.to.checkCalls(t, 4)
}

// TestIsolationLateCommit: while hundreds of topics are down, what commits behind later ids is found.
func TestIsolationLateCommit(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onIsolated(t, testIsolationLateCommit, testIsolationLateCommit)
}

func testIsolationLateCommit[TX any](t *testing.T, g *fixture[TX]) {
	if !g.isServer() {
		t.Skip("SQLite lets one transaction write at a time, so the case cannot exist")
	}
	i := isolate(t, g)
	topics, each := 300, i.size(10)
	for k := range each {
		i.addKeyed(topics, func(n int) message.Message { return event(fmt.Sprintf("down-%d", n), fmt.Sprint(k%2), "t") })
	}
	i.to.set("down", down)
	i.start(outbox.RelayConfig{})
	i.to.wait(t, "every topic to be down", func() bool { return i.to.called("down") >= topics })
	tx, end := g.begin(t)
	must(t, g.box.Add(t.Context(), tx, event(healthyTopic, "late", "late"), event(healthyTopic, "", "late"), event("new", "k", "late"), event("down-7", "late", "late")))
	i.neighbor(healthyEach, noLimit, 0, "")
	busy := i.size(2000)
	i.addKeyed(busy, func(n int) message.Message { return event("busy", fmt.Sprint(n%100), "t") })
	i.to.wait(t, "later ids", func() bool { return i.to.delivered("busy") == busy })
	must(t, end(true))
	// A look at everything takes its turn, while a healthy topic is delivered at once.
	arrived := healthyEach
	for ; i.to.delivered("new") == 0 || i.to.delivered(healthyTopic) < arrived+2; arrived++ {
		if arrived > 1000 {
			t.Fatal("what has committed late has not arrived after 1000 messages that have committed later")
		}
		i.g.mustAdd(t, event(healthyTopic, "", "t"))
		i.to.wait(t, "a healthy message", func() bool { return i.to.delivered(healthyTopic) > arrived })
	}
	i.to.set("down", nil)
	all := topics*each + arrived + busy + 4
	i.to.waitFor(t, all)
	g.waitEmpty(t)
	i.to.check(t, all)
}

// TestIsolationOutage: while the destination is not there, no message is given up if it says so, and few if each message fails: batches
// of 16 and more count as an outage. When it is back, the first one follows soon, whatever the policy of failures says.
func TestIsolationOutage(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onOutage(t, outage{down, 0})
}

// TestIsolationAllFail is TestIsolationOutage of a destination that does not say so: each message fails.
func TestIsolationAllFail(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onOutage(t, outage{fails, 3 * 64})
}

func onOutage(t *testing.T, o outage) {
	t.Helper()
	onIsolated(t, func(t *testing.T, g *fixture[pgx.Tx]) { t.Helper(); testIsolationOutage(t, g, o) },
		func(t *testing.T, g *fixture[*sql.Tx]) { t.Helper(); testIsolationOutage(t, g, o) })
}

// outage is a destination that is not there.
type outage struct {
	behavior behavior
	most     int // messages that are given up: those that are tried with fewer than 15 others say nothing about their destination
}

func testIsolationOutage[TX any](t *testing.T, g *fixture[TX], o outage) {
	i := isolate(t, g)
	const topics, each = 3, 400
	i.addKeyed(topics*each, func(k int) message.Message { return event(fmt.Sprintf("out-%d", k%topics), fmt.Sprint(k%100), "t") })
	i.to.set("out", o.behavior)
	i.start(outbox.RelayConfig{DeadLetters: true, Policy: &retry.Policy{Attempts: 1, Base: time.Hour, Cap: time.Hour, Total: -1}})
	i.to.wait(t, "several tries", func() bool { return i.to.called("out") >= 4*topics })
	i.neighbor(healthyEach, noLimit, 0, "")
	for _, table := range []string{"once_deadletter", "once_outbox_failed"} {
		if n := g.count(t, "select count(*) from "+table); n > o.most {
			t.Errorf("an outage has made %d rows of %s, want at most %d", n, table, o.most)
		}
	}
	i.to.set("out", nil)
	i.to.wait(t, "what was not given up", func() bool { return i.to.delivered("out-0")+i.to.delivered("out-1")+i.to.delivered("out-2") > each })
	i.resume(topics*each+healthyEach, "out-0", "out-1", "out-2")
	g.waitEmpty(t)
	i.to.check(t, topics*each+healthyEach)
}

// TestIsolationPoisonFirst: a topic whose first messages fail is no topic that is down: what follows them arrives.
func TestIsolationPoisonFirst(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	onIsolated(t, testIsolationPoisonFirst, testIsolationPoisonFirst)
}

func testIsolationPoisonFirst[TX any](t *testing.T, g *fixture[TX]) {
	i := isolate(t, g)
	const poison, good = 40, 100
	i.addKeyed(poison, func(int) message.Message { return event("mixed", "", "poison") })
	i.addKeyed(good, func(k int) message.Message { return event("mixed", fmt.Sprint(k%10), "good") })
	i.to.set("mixed", func(_ context.Context, messages []message.Message) []error {
		errs := make([]error, len(messages))
		for k, m := range messages {
			if strings.HasPrefix(m.Type, "poison") {
				errs[k] = errRefused
			}
		}
		return errs
	})
	i.start(outbox.RelayConfig{Batch: 20, Policy: soon(3)})
	i.neighbor(healthyEach, noLimit, 0, "")
	i.to.waitFor(t, good+healthyEach)
	i.to.set("mixed", nil)
	i.resume(good+poison+healthyEach, "mixed")
	g.waitEmpty(t)
	i.to.check(t, good+poison+healthyEach)
}
