package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/breaker"
)

// guards protect the routes of an upstream. Each route has a limit, a breaker and a budget of its own: a route that is slow or fails takes no slot
// from another route, and does not open the breaker of another route. A reload that does not change a route keeps its guard.
type guards struct {
	mu  sync.Mutex
	all map[guarded]*guard
}

// guarded is a route with all settings on which its guard depends.
type guarded struct {
	upstream, pattern string
	principal         string // the part of a request that names its tenant
	limit, queue      int
	breaks            bool
	metric            string // of Server-Timing; "" if not set
	atMost            time.Duration
}

// guard is the Gate and the Begin of a [gateway.Route].
type guard struct {
	*limit.Limiter

	id      guarded
	breaker *breaker.Breaker // nil if not set
	probe   atomic.Int64     // when the probe request came in that shows whether the service has recovered; 0 if no probe is running
	budget  *retry.Budget    // for forwards after a tombstone
	waits   *limit.Pool      // nil if the service does not report its wait for the database
}

const openFor = 5 * time.Second // how long a breaker stays open

func newGuards() *guards {
	return &guards{all: map[guarded]*guard{}}
}

// of returns the guards of the routes of c.
func (gs *guards) of(c *config, tenant func(*http.Request) string) []*guard {
	list := make([]*guard, len(c.Routes))
	for i, r := range c.Routes {
		id := guarded{upstream: c.Upstream, pattern: r.Match, principal: fmt.Sprint(c.Principal, c.Anyone), limit: r.Limit, breaks: r.Breaker == nil || *r.Breaker}
		if id.limit == 0 {
			id.limit = defaultLimit
		}
		if id.queue = id.limit; r.Queue != nil {
			id.queue = *r.Queue
		}
		if w := r.DatabaseWait; w != nil {
			if id.metric, id.atMost = w.ServerTiming, time.Duration(w.AtMost); id.atMost == 0 {
				id.atMost = defaultAtMost
			}
		}
		list[i] = gs.get(id, tenant)
	}
	return list
}

// get returns the guard of a route: the existing one if no setting has changed.
func (gs *guards) get(id guarded, tenant func(*http.Request) string) *guard {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.all[id]; g != nil {
		return g
	}
	cfg := limit.Config{Limit: id.limit, Queue: id.queue, Tenant: tenant}
	if cfg.Queue == 0 {
		cfg.Queue = -1
	}
	g := &guard{id: id, budget: new(retry.Budget)}
	if id.metric != "" {
		g.waits = limit.NewPool(limit.PoolConfig{Limit: id.limit, Acquire: id.atMost})
		cfg.Capacity = g.waits
	}
	if id.breaks {
		g.breaker = breaker.New(gobreaker.Settings{Name: id.pattern, Timeout: openFor})
	}
	g.Limiter = limit.New(cfg)
	return g
}

// keep drops all guards except the guards of the new config.
func (gs *guards) keep(list []*guard) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.all = map[guarded]*guard{}
	for _, g := range list {
		gs.all[g.id] = g
	}
}

// Gauges implements [gauge.Source].
func (gs *guards) Gauges(ctx context.Context) (values []gauge.Value, err error) {
	gs.mu.Lock()
	all := maps.Clone(gs.all)
	gs.mu.Unlock()
	sum := map[[2]string]float64{} // limits of all routes
	for id, g := range all {
		of, _ := g.Gauges(ctx) // the gauges of a single guard cannot fail
		for _, v := range of {
			sum[[2]string{v.Name, v.Label}] += v.Number
		}
		if g.breaker != nil {
			open := 0.0
			if g.breaker.State() != gobreaker.StateClosed {
				open = 1
			}
			values = append(values, gauge.Value{Name: gaugename.BreakerOpen, Label: id.pattern, Number: open})
		}
	}
	for name, number := range sum {
		values = append(values, gauge.Value{Name: name[0], Label: name[1], Number: number})
	}
	return values, nil
}

// Enter implements oncehttp.Gate. While the breaker is open, it lets only replays pass; when the breaker may close again, it lets one further request
// through as a probe.
func (g *guard) Enter(r *http.Request, replay limit.Replay) (leave func(), refused *limit.Refusal) {
	leave, refused = g.Limiter.Enter(r, replay)
	if refused != nil || g.breaker == nil || g.breaker.State() == gobreaker.StateClosed {
		return leave, refused
	}
	if replay != nil && (replay.Cached() || replay.Stored(r.Context())) {
		return leave, nil
	}
	if g.breaker.State() != gobreaker.StateOpen {
		if end, ok := g.probes(); ok {
			enter := leave // the function below must not call the named result, which is itself
			return func() { end(); enter() }, nil
		}
	}
	leave()
	return nil, &limit.Refusal{
		Code: limit.CodeOverloaded, Status: http.StatusServiceUnavailable, Title: "Service unavailable", After: openFor,
		Detail: "The service does not respond at the moment, and the gateway has not sent this request to the service. Send the request again after Retry-After, with the same idempotency key.",
	}
}

// probes admits one request at a time as a probe. If this request takes too long, for example because its client sends the body slowly, probes admits
// another request.
func (g *guard) probes() (end func(), ok bool) {
	now, before := time.Now().UnixNano(), g.probe.Load()
	if now-before < int64(openFor) || !g.probe.CompareAndSwap(before, now) {
		return nil, false
	}
	return func() { g.probe.CompareAndSwap(now, 0) }, true
}

var errBudget = errors.New("the gateway does not send the request to the service again, because the gateway has repeated too many other requests")

// Begin is the Begin of a [gateway.Route].
func (g *guard) Begin(again bool) (done func(gateway.Forwarded), err error) {
	tell := func(retry.Health) {}
	if g.breaker != nil {
		if tell, err = g.breaker.Allow(); err != nil {
			return nil, err
		}
	}
	if again && !g.budget.Spend(retry.ClassUnknown) {
		tell(retry.HealthUnknown)
		return nil, errBudget
	}
	return func(f gateway.Forwarded) {
		health := healthOf(f)
		if tell(health); health == retry.HealthGood {
			g.budget.Succeed()
		}
		if wait, ok := serverTiming(f.Header, g.id.metric); ok && g.waits != nil {
			g.waits.Observe(context.Background(), once.Event{Type: once.EventFinished, Acquire: max(wait, 1), Total: f.Took})
		}
	}, nil
}

// healthOf returns the health of the service after a forwarded request. The health is bad if no connection was made, or if the service itself has not
// answered. A 500 or a 429 is an answer, because a single caller may have caused it.
func healthOf(f gateway.Forwarded) retry.Health {
	switch {
	case f.Abandoned:
		return retry.HealthUnknown
	case f.Class == "not_sent" || f.Class == "unknown":
		return retry.HealthBad
	}
	return retry.HealthGood
}

// serverTiming returns the duration of a metric in the header Server-Timing, such as "db;dur=53.2, app;dur=47".
func serverTiming(h http.Header, metric string) (time.Duration, bool) {
	for _, line := range h.Values("Server-Timing") {
		for entry := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(entry, ";")
			if strings.TrimSpace(name) != metric {
				continue
			}
			for param := range strings.SplitSeq(params, ";") {
				key, value, _ := strings.Cut(strings.TrimSpace(param), "=")
				ms, err := strconv.ParseFloat(strings.Trim(value, `"`), 64)
				if strings.EqualFold(key, "dur") && err == nil && ms >= 0 && ms < 1e9 {
					return time.Duration(ms * float64(time.Millisecond)), true
				}
			}
		}
	}
	return 0, false
}
