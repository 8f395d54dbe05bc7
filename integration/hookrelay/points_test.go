package hookrelay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

func isStep(st store.Statement) bool {
	for _, text := range []string{"fence = fence + 1 where", "data, encrypted from once_webhook_event", "into once_webhook_attempt", "once_webhook_delivery d FOR UPDATE", "once_webhook_state"} {
		if strings.Contains(st.SQL, text) && !strings.HasPrefix(st.SQL, "select endpoint") {
			return true
		}
	}
	return false
}

// TestKilledAtEachPoint: a relay is killed (SIGKILL) before and after each statement of taking parts, claim, attempt and settling, one of whose endpoints fails once. Another
// relay takes its parts over: each event arrives at each endpoint, and never after it was recorded there that it has.
func TestKilledAtEachPoint(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) { testPoints(t, kind, plan{}, 8) })
}

// TestStoppedAtEachPoint: a relay is stopped (SIGSTOP) at each of these points for longer than its lease, while another one delivers all, and goes on (SIGCONT): it changes
// nothing, and nothing arrives again but what was on its way.
func TestStoppedAtEachPoint(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, kind string) { testPoints(t, kind, plan{Stop: true}, 8) })
}

// TestKilledAtEachWrite: as TestKilledAtEachPoint, before and after the relay connects to an endpoint, after each of its writes to that socket, and after it has read from it.
func TestKilledAtEachWrite(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) { testPoints(t, kind, plan{Sockets: true}, 12) })
}

// TestStoppedAtEachWrite: as TestStoppedAtEachPoint, at the points of TestKilledAtEachWrite.
func TestStoppedAtEachWrite(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, kind string) { testPoints(t, kind, plan{Sockets: true, Stop: true}, 12) })
}

// testPoints breaks a relay at each point of a plan, of which there are at least so many.
func testPoints(t *testing.T, kind string, p plan, least int) {
	t.Helper()
	const endpoints, events, failures = 2, 2, 1
	g := newFixture(t, kind)
	p.Database, p.URL, p.TTL = g.database, g.to.url, time.Second
	g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_2", tenant: "a"})
	var late sync.Map
	for uid, failures := range map[string]int{"ep_1": 0, "ep_2": failures} {
		g.to.set(uid, func(_ int, r *http.Request, _ http.ResponseWriter) int {
			id := r.Header.Get(webhook.HeaderID)
			if recorded, err := g.recorded(context.WithoutCancel(r.Context()), uid, id, http.StatusOK); recorded > 0 || err != nil {
				late.Store(uid+"/"+id, fmt.Sprint(recorded, " ", err))
			}
			if g.to.ids(uid)[id] <= failures {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		})
	}
	ended := 0
	harness.Loop(t, least, func(at int) bool {
		prefix := fmt.Sprint("at", at)
		g.send(t, "a", prefix, events)
		g.exec(t, "update once_webhook_event set data = ?", []byte(strings.Repeat("x", 5000))) // more than one write
		p.At = int64(at)
		child := harness.Start(t, p)
		left := func() int { return g.count(t, "select count(*) from once_webhook_delivery") }
		struck, onTheirWay := g.untilStruck(t, child, p.Stop, left)
		if struck {
			end := g.start(t, nil, webhook.RelayConfig{Schedule: soon(1000)})
			g.until(t, "deliveries are left", 0, "select count(*) from once_webhook_delivery")
			attempts := g.count(t, "select count(*) from once_webhook_attempt")
			if p.Stop {
				child.Signal(syscall.SIGCONT)
			}
			end()
			ended++
			if p.Stop {
				finish(t, child)
				if n := g.count(t, "select count(*) from once_webhook_attempt"); n != attempts {
					t.Errorf("point %d: %d attempts are kept, before the node went on it was %d", at, n, attempts)
				}
			}
		} else {
			struck = finish(t, child) // a point may also be met while it ends
		}
		if n := left(); n > 0 {
			t.Errorf("point %d: %d deliveries are left", at, n)
		}
		for _, uid := range []string{"ep_1", "ep_2"} {
			ids := g.to.ids(uid)
			for i := range events {
				id := fmt.Sprint(prefix, "-", i)
				recorded, err := g.recorded(t.Context(), uid, id, http.StatusOK)
				must(t, err)
				if ids[id] == 0 || ids[id] > failures+2 || recorded != 1 {
					t.Errorf("point %d: %s has arrived %d times at %s, and that is recorded %d times", at, id, ids[id], uid, recorded)
				}
			}
		}
		late.Range(func(what, recorded any) bool {
			if !slices.Contains(onTheirWay, what.(string)) {
				t.Errorf("point %d: %v arrives after it was recorded: %v", at, what, recorded)
			}
			return true
		})
		late.Clear()
		return struck
	})
	testenv.Reportf(t, "%s: a relay has ended or stopped at %d points; %d requests for %d deliveries", kind, ended, len(g.to.arrived("")), (ended+1)*endpoints*events)
}

// finish ends a relay, which goes on if it stops meanwhile, and reports whether it has met its point.
func finish(t *testing.T, c *harness.Child) (struck bool) {
	t.Helper()
	c.EndInput()
	for line := range c.Lines() {
		if strings.HasPrefix(line, stopped) {
			c.UntilStopped(t)
			c.Signal(syscall.SIGCONT)
			struck = true
		}
	}
	_, killed := c.End(t)
	return struck || killed
}

// untilStruck waits until a process has ended or stopped at its point, or has delivered all. It returns the requests that were on their way from one that has stopped.
func (g *fixture) untilStruck(t *testing.T, c *harness.Child, stop bool, left func() int) (struck bool, onTheirWay []string) {
	t.Helper()
	harness.Until(t, func() error {
		select {
		case <-c.Ended():
			struck = true
			return nil
		case line := <-c.Lines():
			if struck = strings.HasPrefix(line, stopped); struck {
				onTheirWay = strings.Fields(line)
			}
		default:
		}
		if n := left(); !struck && n > 0 {
			return fmt.Errorf("%d deliveries are left", n)
		}
		return nil
	})
	if struck && stop {
		c.UntilStopped(t)
	}
	return struck, onTheirWay
}

// recorded is how many attempts of an event at an endpoint are recorded with a status.
func (g *fixture) recorded(ctx context.Context, endpoint, event string, status int) (n int, err error) {
	query := "select count(*) from once_webhook_attempt a join once_webhook_endpoint e on e.id = a.endpoint join once_webhook_event v on v.id = a.event where e.uid = ? and v.uid = ? and a.status = ?"
	err = g.db.Pool().Query(ctx, harness.Text(g.db, query, endpoint, event, int64(status)), func(row sqlplane.Row) error { return row.Scan(&n) })
	return n, err
}
