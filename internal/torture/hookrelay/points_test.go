package hookrelay

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

// strikes watches a relay that ends, or stops until it is woken, at its N-th point: before and after each statement with which it takes parts, reads an event to begin its deliveries, and writes
// down what has become of them and how their endpoint is doing, and when a claim has read a row. Each statement is one write to a socket. What it asks again and again is no point.
func strikes(at int64, stop bool) *watch {
	var passed atomic.Int64
	point := func() {
		if passed.Add(1) != at {
			return
		}
		if !stop {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		fmt.Println("stop")
		if err := harness.Stop(); err != nil {
			panic(err)
		}
	}
	if at == 0 {
		return nil
	}
	return &watch{
		before: func(st store.Statement) error {
			if isStep(st) {
				point()
			}
			return nil
		},
		row: func(st store.Statement) {
			if isClaim(st) {
				point()
			}
		},
		after: func(st store.Statement, err error) error {
			if isStep(st) {
				point()
			}
			return err
		},
	}
}

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
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) { testPoints(t, kind, false) })
}

// TestStoppedAtEachPoint: a relay is stopped (SIGSTOP) at each of these points for longer than its lease, while another one delivers all, and goes on (SIGCONT): it changes
// nothing, and nothing arrives again.
func TestStoppedAtEachPoint(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, kind string) { testPoints(t, kind, true) })
}

func testPoints(t *testing.T, kind string, stop bool) {
	t.Helper()
	const endpoints, events, least = 2, 2, 8
	g := newGround(t, kind)
	g.endpoints(t, endpoint{id: 1, uid: "ep_1", tenant: "a"}, endpoint{id: 2, uid: "ep_2", tenant: "a"})
	var late sync.Map
	for uid, failures := range map[string]int{"ep_1": 0, "ep_2": 1} {
		g.to.set(uid, func(_ int, r *http.Request, _ http.ResponseWriter) int {
			id := r.Header.Get(webhook.HeaderID)
			if recorded, err := g.recorded(context.WithoutCancel(r.Context()), uid, id, http.StatusOK); recorded > 0 || err != nil {
				late.Store(uid+" "+id, fmt.Sprint(recorded, " ", err))
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
		child := harness.Start(t, plan{Database: g.database, URL: g.to.url, TTL: time.Second, At: int64(at), Stop: stop})
		left := func() int { return g.count(t, "select count(*) from once_webhook_delivery") }
		struck := g.untilStruck(t, child, stop, left)
		if struck {
			end := g.start(t, nil, webhook.RelayConfig{Schedule: soon(1000)})
			g.until(t, "deliveries are left", 0, "select count(*) from once_webhook_delivery")
			if stop {
				child.Signal(syscall.SIGCONT)
			}
			end()
			ended++
		}
		if stop || !struck {
			struck = finish(t, child) || struck // a point may also be met while it ends
		}
		for _, uid := range []string{"ep_1", "ep_2"} {
			ids := g.to.ids(uid)
			for i := range events {
				id := fmt.Sprint(prefix, "-", i)
				recorded, err := g.recorded(t.Context(), uid, id, http.StatusOK)
				must(t, err)
				if ids[id] == 0 || recorded != 1 {
					t.Errorf("point %d: %s has arrived %d times at %s, and that is recorded %d times", at, id, ids[id], uid, recorded)
				}
			}
		}
		late.Range(func(what, recorded any) bool {
			t.Errorf("point %d: %v arrives after it was recorded: %v", at, what, recorded)
			return true
		})
		return struck
	})
	testenv.Reportf(t, "%s: a relay has ended or stopped at %d points; %d requests for %d deliveries", kind, ended, len(g.to.arrived("")), (ended+1)*endpoints*events)
}

// finish ends a relay, which goes on if it stops meanwhile, and reports whether it has met its point.
func finish(t *testing.T, c *harness.Child) (struck bool) {
	t.Helper()
	c.EndInput()
	for line := range c.Lines() {
		if line == "stop" {
			c.UntilStopped(t)
			c.Signal(syscall.SIGCONT)
			struck = true
		}
	}
	_, killed := c.End(t)
	return struck || killed
}

// untilStruck waits until a process has ended or stopped at its point, or has delivered all.
func (g *ground) untilStruck(t *testing.T, c *harness.Child, stop bool, left func() int) (struck bool) {
	t.Helper()
	harness.Until(t, func() error {
		select {
		case <-c.Ended():
			struck = true
			return nil
		case line := <-c.Lines():
			struck = line == "stop"
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
	return struck
}

// recorded is how many attempts of an event at an endpoint are recorded with a status.
func (g *ground) recorded(ctx context.Context, endpoint, event string, status int) (n int, err error) {
	query := "select count(*) from once_webhook_attempt a join once_webhook_endpoint e on e.id = a.endpoint join once_webhook_event v on v.id = a.event where e.uid = ? and v.uid = ? and a.status = ?"
	err = g.db.Pool().Query(ctx, harness.Text(g.db, query, endpoint, event, int64(status)), func(row sqlplane.Row) error { return row.Scan(&n) })
	return n, err
}
