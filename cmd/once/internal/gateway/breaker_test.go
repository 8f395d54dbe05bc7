package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
)

// opened returns the guard of a route whose breaker is open.
func opened(t *testing.T) *guard {
	t.Helper()
	g := newGuards().get(guarded{pattern: "POST /a", limit: 10, breaks: true}, nil)
	fail(t, g)
	return g
}

func fail(t *testing.T, g *guard) {
	t.Helper()
	for range 40 {
		if done, err := g.Begin(false); err == nil {
			done(gateway.Forwarded{Class: "unknown"})
		}
	}
	if g.breaker.State() != gobreaker.StateOpen {
		t.Fatalf("the breaker is %s", g.breaker.State())
	}
}

func enters(g *guard) (leave func(), ok bool) {
	leave, refused := g.Enter(httptest.NewRequest(http.MethodPost, "/a", http.NoBody), nil)
	return leave, refused == nil
}

// TestHalfOpenBreaker: an open breaker lets one request in after its time. It closes if the service answers that, and stays open if not.
func TestHalfOpenBreaker(t *testing.T) {
	t.Parallel()
	for class, well := range map[string]bool{"completed": true, "unknown": false} {
		synctest.Test(t, func(t *testing.T) {
			g := opened(t)
			if _, ok := enters(g); ok {
				t.Error("it is open, and a request comes in")
			}
			<-time.After(openFor + 1)
			leave, ok := enters(g)
			if _, another := enters(g); !ok || another {
				t.Fatalf("the first request comes in: %t, another one beside it: %t", ok, another)
			}
			done, err := g.Begin(false)
			if err != nil {
				t.Fatal(err)
			}
			done(gateway.Forwarded{Class: class})
			leave()
			for range 3 {
				leave, ok := enters(g)
				if ok != well {
					t.Errorf("the service has answered with %s, and the next request comes in: %t", class, ok)
				}
				if ok {
					leave()
				}
			}
		})
	}
}

// TestSlowProbeKeepsNoRouteClosed: the request that is to show whether the service is well does not reach it, since its client is slow. Another
// one is let in.
func TestSlowProbeKeepsNoRouteClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := opened(t)
		<-time.After(openFor + 1)
		slow, _ := enters(g)
		if _, ok := enters(g); ok {
			t.Error("two at once")
		}
		<-time.After(openFor)
		second, ok := enters(g)
		if !ok {
			t.Fatal("a slow client keeps the route closed")
		}
		slow() // it ends the turn of no other one
		if _, ok := enters(g); ok {
			t.Error("two at once")
		}
		second()
		if _, ok := enters(g); !ok {
			t.Error("the turn has ended, and nothing comes in")
		}
	})
}

// committed is receipts of a service that has executed everything.
type committed struct{}

func (committed) Look(_ context.Context, operation string) (gateway.Receipt, bool, error) {
	return gateway.Receipt{Operation: operation, Status: http.StatusCreated, Body: []byte("paid")}, true, nil
}

func (c committed) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	r, _, err := c.Look(ctx, operation)
	return r, err
}

// TestReceiptsAnswerWhileABreakerIsOpen: without a store, what was executed is answered by its receipt also then.
func TestReceiptsAnswerWhileABreakerIsOpen(t *testing.T) {
	t.Parallel()
	cfg, src, err := parse("once.yaml", []byte("gateway:\n  upstream: http://127.0.0.1:1\n  anyone: true\n  store: receipt\n  receipt: http://127.0.0.1:1/x\n  routes:\n  - {match: POST /a}\n"), flags{})
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{back: &backing{receipts: committed{}}, guards: newGuards(), observer: once.Discard, log: slog.New(slog.DiscardHandler)}
	gen, err := p.build(cfg, src)
	if err != nil {
		t.Fatal(err)
	}
	p.begin(t.Context(), gen)
	fail(t, gen.guards[0])
	if w := post(p, "/a", "k"); w.Code != http.StatusCreated || w.Body.String() != "paid" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestEndpointIsHidden: clients of the gateway do not reach the endpoint for receipts, which trusts the gateway.
func TestEndpointIsHidden(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	cfg, _, err := parse("once.yaml", []byte("gateway:\n  upstream: "+u.URL+"\n  anyone: true\n  receipt: "+u.URL+"/once-receipt\n"), flags{})
	if err != nil {
		t.Fatal(err)
	}
	if hidden := cfg.gatewayConfig().Hidden; len(hidden) != 1 || hidden[0] != "/once-receipt" {
		t.Errorf("%q", hidden)
	}
}
