package hookrelay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// isClaim reports whether a statement reads what is due, to begin it.
func isClaim(st store.Statement) bool {
	return strings.Contains(st.SQL, "due_at <=") && strings.Contains(st.SQL, ">=")
}

// isFinder reports whether a statement reads what is due before the bounds of endpoints.
func isFinder(st store.Statement) bool { return strings.Contains(st.SQL, "due_at <=") && !isClaim(st) }

// isSettle reports whether a statement is the last one of those that write outcomes down.
func isSettle(st store.Statement) bool { return strings.Contains(st.SQL, "into once_webhook_attempt") }

// TestClaimBeforeSettle: a claim that has read a row before its outcome was written down posts nothing again.
func TestClaimBeforeSettle(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.MariaDB, harness.MySQL}, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		seen := newEvents()
		answers, claims := make(chan struct{}), make(chan struct{})
		var armed, blocked atomic.Bool
		g.to.set("ep_1", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n == 2 { // the first one has opened the window
				<-answers
			}
			return http.StatusOK
		})
		w := &watch{row: func(st store.Statement) {
			if isClaim(st) && armed.Load() && blocked.CompareAndSwap(false, true) {
				close(claims)
				seen.wait(t, webhook.EventDelivered, "ep_1", 2)
			}
		}}
		g.start(t, w, webhook.RelayConfig{Observer: seen})
		g.send(t, "a", "first", 1)
		seen.wait(t, webhook.EventDelivered, "ep_1", 1)
		g.send(t, "a", "slow", 1)
		g.to.waitFor(t, "ep_1", 2)
		armed.Store(true)
		g.send(t, "a", "third", 1) // its claim reads both rows
		<-claims
		close(answers)
		seen.wait(t, webhook.EventDelivered, "ep_1", 3)
		g.send(t, "a", "last", 1)
		seen.wait(t, webhook.EventDelivered, "ep_1", 4)
		for id, n := range g.to.ids("ep_1") {
			if n != 1 {
				t.Errorf("%s has arrived %d times", id, n)
			}
		}
	})
}

// isEvents reports whether a statement reads the events of deliveries that are about to begin.
func isEvents(st store.Statement) bool {
	return strings.HasPrefix(st.SQL, "select id, uid, tenant, type, trace, data, encrypted from once_webhook_event")
}

// TestLaggingStandby: a standby that does not have an event yet answers the read of the event, while the primary has answered the read of its delivery. The delivery stays and is
// looked at again after a pause, until the event is found. A delivery whose event the primary does not have either is deleted.
func TestLaggingStandby(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const reads = 6
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_2", tenant: "b", ordered: true})
		var mu sync.Mutex
		var hidden []time.Time
		w := &watch{hides: func(st store.Statement) bool {
			mu.Lock()
			defer mu.Unlock()
			if !isEvents(st) || len(hidden) == reads {
				return false
			}
			hidden = append(hidden, time.Now())
			return true
		}}
		seen := newEvents()
		g.send(t, "a", "e", 3)
		g.send(t, "b", "f", 3)
		g.start(t, w, webhook.RelayConfig{Observer: seen})
		seen.wait(t, webhook.EventDelivered, "ep_1", 3)
		seen.wait(t, webhook.EventDelivered, "ep_2", 3)
		if n := len(g.to.arrived("")); n != 6 {
			t.Errorf("%d requests for 6 deliveries", n)
		}
		// Each endpoint is looked at again a second later; each may have been woken once in between.
		if over := hidden[reads-1].Sub(hidden[0]); over < 500*time.Millisecond {
			t.Errorf("%d reads within %v", reads, over)
		}
		g.exec(t, `insert into once_webhook_delivery (endpoint, event, part, due_at, attempts, cause, created_at) values (1, 1000000, 1, NOW, 0, '', NOW)`)
		g.until(t, "deliveries without an event are left", 0, "select count(*) from once_webhook_delivery")
	})
}

// TestForgetBesideLaggingStandby: a standby that has no row yet answers all reads of Forget. All of the tenant is erased, and nothing of another tenant.
func TestForgetBesideLaggingStandby(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const each = 3
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_2", tenant: "b"})
		g.send(t, "a", "a", each)
		g.send(t, "b", "b", each)
		g.exec(t, "insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause) values (1, 1, NOW, 1, 500, '', 0, ?, false, '')", []byte{})
		hooks, _ := g.hooks(&watch{hides: func(store.Statement) bool { return true }}).(interface {
			Forget(ctx context.Context, tenant string) (webhook.Forgotten, error)
		})
		f, err := hooks.Forget(t.Context(), "a")
		if want := (webhook.Forgotten{Endpoints: 1, Events: each, Deliveries: each, Attempts: 1}); err != nil || f != want {
			t.Errorf("%+v, %v; want %+v", f, err, want)
		}
		if n := g.count(t, "select (select count(*) from once_webhook_delivery) + (select count(*) from once_webhook_attempt) + (select count(*) from once_webhook_event)"); n != 2*each {
			t.Errorf("%d rows are left, want %d", n, 2*each)
		}
	})
}

// TestBusyEndpoint: nothing of a busy endpoint is posted twice, while claims and outcomes overlap.
func TestBusyEndpoint(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const events, most, free = 500, 16, 100
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a", concurrency: most})
		full := make(chan struct{})
		var underWay atomic.Int64
		g.to.set("ep_1", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n <= free { // they open the window
				return http.StatusOK
			}
			if underWay.Add(1) == most {
				close(full)
			}
			<-full
			return http.StatusOK
		})
		g.send(t, "a", "e", events)
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen})
		g.settled(t, seen, events)
		if n := len(g.to.arrived("ep_1")); n != events || len(g.to.ids("ep_1")) != events {
			t.Errorf("%d requests for %d of %d events", n, len(g.to.ids("ep_1")), events)
		}
		if n := g.count(t, "select count(*) from once_webhook_attempt"); n != events {
			t.Errorf("%d attempts are kept", n)
		}
		if n := g.to.most["ep_1"]; n != most {
			t.Errorf("%d requests were on their way at once, want %d", n, most)
		}
	})
}

// TestFencedRelayChangesNothing: a relay whose part another process has taken meanwhile changes no delivery and keeps no attempt.
func TestFencedRelayChangesNothing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		for what, status := range map[string]int{"delivered": http.StatusOK, "failed": http.StatusInternalServerError, "gone": http.StatusGone} {
			t.Run(what, func(t *testing.T) {
				g := newFixture(t, kind)
				g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
				seen := newEvents()
				answers := make(chan struct{})
				g.to.set("ep_1", func(int, *http.Request, http.ResponseWriter) int {
					<-answers
					return status
				})
				stop := g.start(t, nil, webhook.RelayConfig{Observer: seen, Timeout: 2 * patience})
				g.send(t, "a", "e", 1)
				g.to.waitFor(t, "ep_1", 1)
				// The other process lives: otherwise this relay would take the part again, and deliver.
				g.exec(t, "insert into once_webhook_hold_node (work, node, expires, leaving, ttl) values ('webhook', 'other', AGO(?), 0, ?)", -time.Hour.Microseconds(), time.Hour.Microseconds())
				if n := g.exec(t, "update once_webhook_hold set node = 'other', fence = fence + 1 where part = 1"); n != 1 {
					t.Fatalf("%d parts are taken", n)
				}
				close(answers)
				if status == http.StatusOK {
					seen.wait(t, webhook.EventDelivered, "ep_1", 1)
				} else {
					seen.wait(t, webhook.EventFailed, "ep_1", 1)
				}
				stop()
				if n := g.count(t, "select count(*) from once_webhook_delivery where attempts = 0"); n != 1 {
					t.Error("the delivery has changed")
				}
				if n := g.count(t, "select count(*) from once_webhook_attempt"); n != 0 {
					t.Errorf("%d attempts are kept", n)
				}
				if n := g.count(t, "select count(*) from once_webhook_state"); n != 0 {
					t.Error("it has said how the endpoint is doing")
				}
				if n := g.count(t, "select count(*) from once_webhook_endpoint where disabled_at is not null"); n != 0 {
					t.Error("it has disabled the endpoint")
				}
			})
		}
	})
}

// TestLostAnswer: the answer to the statement that writes outcomes down is lost: they are written down once.
func TestLostAnswer(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const events = 40
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"})
		g.to.set("ep_1", func(n int, _ *http.Request, _ http.ResponseWriter) int {
			if n%7 == 0 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		var statements atomic.Int64
		w := &watch{after: func(st store.Statement, err error) error {
			if err == nil && isSettle(st) && statements.Add(1)%2 == 1 {
				return &store.Error{Kind: store.KindLost, Err: fmt.Errorf("the answer is lost")}
			}
			return err
		}}
		g.send(t, "a", "e", events)
		seen := newEvents()
		g.start(t, w, webhook.RelayConfig{Observer: seen, Schedule: soon(100)})
		g.settled(t, seen, events)
		requests := len(g.to.arrived("ep_1"))
		if n := g.count(t, "select count(*) from once_webhook_attempt"); n != requests || requests != events+seen.count(webhook.EventFailed) {
			t.Errorf("%d attempts are kept of %d requests, %d of which have failed", n, requests, seen.count(webhook.EventFailed))
		}
		if statements.Load() < 2 {
			t.Error("no answer was lost")
		}
	})
}

// TestDatabaseFails: statements of the relay fail, each kind several times: nothing is lost, and twice comes only what was on its way when the relay did not know.
func TestDatabaseFails(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.SQLite, harness.MariaDB}, func(t *testing.T, kind string) {
		const events = 60
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_2", tenant: "a"})
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 2))
		w := &watch{before: func(store.Statement) error {
			mu.Lock()
			defer mu.Unlock()
			if random.IntN(3) == 0 {
				return &store.Error{Kind: store.KindUnavailable, Err: fmt.Errorf("the database is not there")}
			}
			return nil
		}}
		seen := newEvents()
		g.start(t, w, webhook.RelayConfig{Observer: seen})
		g.send(t, "a", "e", events)
		g.settled(t, seen, 2*events)
		for _, uid := range []string{"ep_1", "ep_2"} {
			if n := len(g.to.arrived(uid)); n != events || len(g.to.ids(uid)) != events {
				t.Errorf("%d requests for %d of %d events have come to %s", n, len(g.to.ids(uid)), events, uid)
			}
		}
	})
}

// TestDrainEndsRequestsUnderWay: a relay that ends lets what is on its way end, and another one does the rest at once.
func TestDrainEndsRequestsUnderWay(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const relays, events = 5, 200
		g := newFixture(t, kind)
		g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 40, uid: "ep_2", tenant: "a"})
		for i := range relays {
			g.send(t, "a", fmt.Sprint("e", i, "-"), events/relays) // new ones, because an earlier relay may have delivered all before it is stopped
			seen := newEvents()
			stop := g.start(t, nil, webhook.RelayConfig{Observer: seen})
			seen.wait(t, webhook.EventDelivered, "", 10)
			stop()
			if n := g.count(t, "select count(*) from once_webhook_hold_node"); n > 0 {
				t.Errorf("relay %d has left its row", i)
			}
		}
		g.start(t, nil, webhook.RelayConfig{})
		g.to.waitFor(t, "ep_1", events)
		g.to.waitFor(t, "ep_2", events)
		for _, uid := range []string{"ep_1", "ep_2"} {
			if n := len(g.to.arrived(uid)); n != events || len(g.to.ids(uid)) != events {
				t.Errorf("%d requests for %d of %d events have come to %s", n, len(g.to.ids(uid)), events, uid)
			}
		}
	})
}

// TestNoFiles: a relay whose process has no file descriptor left makes no request, and that counts against no endpoint: no attempt is kept, and nothing is rescheduled. It
// delivers as soon as it can.
func TestNoFiles(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	const endpoints, failures = 3, 8
	g := newFixture(t, harness.Pgx)
	var list []endpoint
	for i := range endpoints {
		list = append(list, endpoint{id: int64(i + 1), uid: fmt.Sprint("ep_", i), tenant: "a"})
	}
	g.endpoints(t, list...)
	child := harness.Start(t, plan{Database: g.database, URL: g.to.url, TTL: patience, NoFiles: true})
	if !child.Wait("starved") {
		t.Fatal("the relay has ended")
	}
	g.send(t, "a", "e", 1)
	for n := 0; n < failures; {
		line, runs := <-child.Lines()
		if !runs {
			t.Fatal("the relay has ended")
		}
		if strings.HasPrefix(line, "ours e-0 ") {
			n++
		}
	}
	if n := g.count(t, "select count(*) from once_webhook_delivery where attempts = 0 and due_at <= NOW"); n != endpoints || len(g.to.arrived("")) > 0 {
		t.Errorf("%d deliveries of %d are due as they were, and %d have arrived", n, endpoints, len(g.to.arrived("")))
	}
	if n := g.count(t, "select (select count(*) from once_webhook_attempt) + (select count(*) from once_webhook_state)"); n > 0 {
		t.Errorf("%d attempts and states are kept", n)
	}
	child.Signal(syscall.SIGUSR1)
	g.to.wait(t, "each endpoint", func() bool { return len(g.to.distinct) == endpoints })
	child.Drain(t)
	if n := g.count(t, "select count(*) from once_webhook_attempt where status = 204"); n != endpoints || len(g.to.arrived("")) != endpoints {
		t.Errorf("%d attempts have succeeded, and %d requests have arrived", n, len(g.to.arrived("")))
	}
}

// TestKilledAndStopped: while relays are killed, and stopped until others have taken their endpoints over, nothing is lost; twice comes what was on its way, with the same id;
// and there is an attempt for each delivery that has succeeded, not more.
func TestKilledAndStopped(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) {
		const endpoints, rounds, each = 32, 6, 10
		g := newFixture(t, kind)
		var list []endpoint
		for i := range endpoints {
			list = append(list, endpoint{id: int64(i + 1), uid: fmt.Sprint("ep_", i), tenant: "a"})
		}
		g.endpoints(t, list...)
		for i := range endpoints {
			g.to.set(fmt.Sprint("ep_", i), func(n int, _ *http.Request, _ http.ResponseWriter) int {
				if n%9 == 0 {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			})
		}
		p := plan{Database: g.database, URL: g.to.url, TTL: time.Second}
		nodes := []*harness.Child{harness.Start(t, p), harness.Start(t, p)}
		sent := 0
		for round := range rounds {
			g.send(t, "a", fmt.Sprint("r", round), each)
			sent += each
			g.to.wait(t, "some requests", func() bool { return len(g.to.distinct) >= sent*endpoints-each*endpoints*9/10 })
			victim := nodes[round%2]
			// Elsewhere a process that is stopped in a transaction keeps its part, or all of SQLite, until it goes on.
			if round%3 == 2 || g.db.Dialect() != sqlplane.PostgreSQL {
				victim.Kill()
				nodes[round%2] = harness.Start(t, p)
				continue
			}
			victim.Signal(syscall.SIGSTOP)
			g.to.wait(t, "all events, while a node is stopped", func() bool { return len(g.to.distinct) >= sent*endpoints })
			victim.Signal(syscall.SIGCONT)
		}
		g.to.wait(t, "all events", func() bool { return len(g.to.distinct) >= sent*endpoints })
		for _, n := range nodes {
			n.Drain(t)
		}
		left := g.count(t, "select count(*) from once_webhook_delivery")
		seen := newEvents()
		g.start(t, nil, webhook.RelayConfig{Observer: seen, Schedule: soon(1000)})
		g.settled(t, seen, left)
		for _, e := range list {
			ids := g.to.ids(e.uid)
			if len(ids) != sent {
				t.Errorf("%s has got %d events of %d", e.uid, len(ids), sent)
			}
		}
		if n := g.count(t, "select count(*) from once_webhook_attempt where status = 200"); n != sent*endpoints {
			t.Errorf("%d attempts have succeeded of %d deliveries", n, sent*endpoints)
		}
		t.Logf("%d requests for %d deliveries, %d of which were left", len(g.to.arrived("")), sent*endpoints, left)
	})
}
