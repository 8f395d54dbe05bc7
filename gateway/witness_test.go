package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// loggedText is what was logged.
type loggedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *loggedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *loggedText) errors() int { return l.count("level=ERROR") }

func (l *loggedText) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// doubtful is a service that writes a receipt with X-Receipt, and answers the status X-Status, or dies without it. It has receipts and a store.
type doubtful struct {
	*memory

	lost     atomic.Bool // the receipts cannot be read
	forwards atomic.Int64
	ops      *memstore.Store
	log      loggedText
	last     atomic.Value // the operation that was forwarded last
}

func newDoubtful() *doubtful { return &doubtful{memory: &memory{}, ops: memstore.New()} }

func (d *doubtful) Look(ctx context.Context, operation string) (gateway.Receipt, bool, error) {
	if d.lost.Load() {
		return gateway.Receipt{}, false, errors.New("the database of the service is away")
	}
	return d.memory.Look(ctx, operation)
}

func (d *doubtful) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	if d.lost.Load() {
		return gateway.Receipt{}, errors.New("the database of the service is away")
	}
	return d.memory.Settle(ctx, operation)
}

func (d *doubtful) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		r, err := http.ReadRequest(bufio.NewReader(server))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		d.forwards.Add(1)
		d.last.Store(r.Header.Get(gateway.OperationHeader))
		if r.Header.Get("X-Receipt") != "" {
			d.receipt()
		}
		if status := r.Header.Get("X-Status"); status != "" {
			_, _ = fmt.Fprintf(server, "HTTP/1.1 %s\r\nContent-Length: 4\r\nConnection: close\r\n\r\npaid", status)
		}
	}()
	return client, nil
}

func (d *doubtful) receipt() {
	d.put(gateway.Receipt{Operation: d.last.Load().(string), Status: 201, Body: []byte("paid")})
}

// gateway returns a gateway as a new process has it.
func (d *doubtful) gateway(t *testing.T) *gateway.Gateway {
	t.Helper()
	return newGateway(t, "http://service", func(c *gateway.Config) {
		c.Dial, c.Receipts, c.Routes[0].OnUnknown = d.dial, d, gateway.PolicyCheck
		c.Store = lease.New(d.ops, lease.Config{AskEvery: time.Nanosecond, Log: slog.New(slog.NewTextHandler(&d.log, nil))})
	})
}

var (
	answered  = []string{"X-Status", "201 Created"}
	witnessed = []string{"X-Status", "201 Created", "X-Receipt", "1"}
)

// wantForwards sends a request whose answer is lost, and counts its forwards: 1 says that the outcome stays unknown, and more that a missing receipt
// has proved something.
func (d *doubtful) wantForwards(t *testing.T, g http.Handler, key string, again bool) {
	t.Helper()
	before, tombstones := d.forwards.Load(), len(d.all)
	code := codeOf(t, ask(g, key, "1"))
	codeOf(t, ask(g, key, "1"))
	want(t, key+": forwarded again", d.forwards.Load()-before > 1, again)
	want(t, key+": a tombstone is written", len(d.all) > tombstones, again)
	if !again {
		want(t, key+": code", code, unknown)
	}
}

// TestWithoutReceiptsNothingRunsAgain: a missing receipt proves nothing before a receipt of the route was seen, and after one was missing. A restarted
// gateway knows both.
func TestWithoutReceiptsNothingRunsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer func() { <-time.After(time.Hour) }() // hearts end
		d := newDoubtful()
		g := d.gateway(t)
		d.wantForwards(t, g, "before any answer", false)
		want(t, "errors", d.log.errors(), 0)
		for i := range 3 {
			want(t, "status", ask(g, fmt.Sprint("no receipt ", i), "1", answered...).StatusCode, 201)
		}
		want(t, "errors in a minute", d.log.errors(), 1)
		if text := d.log.text.String(); !strings.Contains(text, "Try: ") || !strings.Contains(text, "service POST /pay") {
			t.Errorf("the log does not help: %s", text)
		}
		d.wantForwards(t, g, "its receipt is missing", false)
		d.wantForwards(t, d.gateway(t), "after a restart", false)

		want(t, "status", ask(g, "with a receipt", "1", witnessed...).StatusCode, 201)
		<-time.After(time.Second)                                                     // AskEvery
		for _, key := range []string{"before any answer", "its receipt is missing"} { // of a time in which the service wrote none
			forwards := d.forwards.Load()
			want(t, key+": code", codeOf(t, ask(g, key, "1")), unknown)
			want(t, key+": forwards", d.forwards.Load(), forwards)
		}
		d.wantForwards(t, g, "a receipt was seen", true)
		d.wantForwards(t, d.gateway(t), "a receipt was seen before the restart", true)
		<-time.After(25 * time.Hour)
		d.wantForwards(t, d.gateway(t), "that was long ago", true)

		want(t, "status", ask(g, "none again", "1", answered...).StatusCode, 201)
		d.wantForwards(t, g, "none again: unknown", false)
	})
}

// TestRestartedGatewayKnowsTheLastReceipt: of the marks of seen and of missing receipts the youngest decides.
// A gateway that has seen no receipt itself does not trust a service that changes too often, until a day has passed.
func TestRestartedGatewayKnowsTheLastReceipt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer func() { <-time.After(time.Hour) }() // hearts end
		d := newDoubtful()
		for i := range 5 {
			g := d.gateway(t)
			want(t, "status", ask(g, fmt.Sprint("none ", i), "1", answered...).StatusCode, 201)
			d.wantForwards(t, d.gateway(t), fmt.Sprint("one was missing ", i), false)
			want(t, "status", ask(g, fmt.Sprint("seen ", i), "1", witnessed...).StatusCode, 201)
			d.wantForwards(t, d.gateway(t), fmt.Sprint("one was seen ", i), i < 3)
		}
		g := d.gateway(t)
		want(t, "status", ask(g, "seen", "1", witnessed...).StatusCode, 201)
		<-time.After(time.Minute)
		want(t, "status", ask(g, "seen and then none", "1", answered...).StatusCode, 201)
		<-time.After(25 * time.Hour)
		d.wantForwards(t, d.gateway(t), "the marks have expired", true)

		g = d.gateway(t)
		for range 2 { // in one minute
			want(t, "status", ask(g, rand.Text(), "1", answered...).StatusCode, 201)
			d.wantForwards(t, d.gateway(t), "missing: "+rand.Text(), false)
			want(t, "status", ask(g, rand.Text(), "1", witnessed...).StatusCode, 201)
			d.wantForwards(t, d.gateway(t), "seen: "+rand.Text(), true)
			<-time.After(time.Minute)
		}
	})
}

// TestReceiptOfTheKeyDecides: before a receipt of the route was seen, the receipt of the operation itself is its answer, also if it commits late. An
// error of the service is its answer as with stop.
func TestReceiptOfTheKeyDecides(t *testing.T) {
	t.Parallel()
	d := newDoubtful()
	g := d.gateway(t)
	want(t, "died after its commit", bodyOf(t, ask(g, "k1", "1", "X-Receipt", "1")), "paid")
	want(t, "500 after its commit", bodyOf(t, ask(g, "k2", "1", "X-Receipt", "1", "X-Status", "500 Error")), "paid")
	want(t, "commits late", codeOf(t, ask(g, "k3", "1")), unknown)
	d.receipt()
	want(t, "has committed", bodyOf(t, ask(g, "k3", "1")), "paid")
	d.all = nil // it is swept
	want(t, "the answer was stored", bodyOf(t, ask(g, "k3", "1")), "paid")
	for range 2 {
		want(t, "500", ask(g, "k4", "1", "X-Status", "500 Error").StatusCode, 500)
	}
	want(t, "forwards", d.forwards.Load(), int64(4))
}

// TestRetryableUnknownSaysSendAgain: while receipts cannot be read, the next retry asks again, and the problem says so.
func TestRetryableUnknownSaysSendAgain(t *testing.T) {
	t.Parallel()
	d := newDoubtful()
	g := d.gateway(t)
	want(t, "status", ask(g, "seen", "1", witnessed...).StatusCode, 201)
	d.lost.Store(true)
	said := bodyOf(t, ask(g, "k", "1"))
	if !strings.Contains(said, `"retryable":true`) || !strings.Contains(said, "Send the same request again, later") || strings.Contains(said, "not executed again") {
		t.Error(said)
	}
}

// TestWitnessCostsOneLook: while receipts are there, one is read in a minute, and the mark is written once. If it cannot be read, the client has its
// answer, and the gateway trusts as before.
func TestWitnessCostsOneLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer func() { <-time.After(time.Hour) }() // hearts end
		d := newDoubtful()
		g := d.gateway(t)
		d.lost.Store(true)
		want(t, "status while no receipt can be read", ask(g, "k", "1", answered...).StatusCode, 201)
		d.lost.Store(false)
		d.wantForwards(t, g, "nothing is known", false)
		looks := d.looks.Load()
		<-time.After(time.Minute)
		for i := range 10 {
			want(t, "status", ask(g, fmt.Sprint("k", i), "1", witnessed...).StatusCode, 201)
		}
		want(t, "looks", d.looks.Load()-looks, int64(1))
		<-time.After(time.Minute)
		d.lost.Store(true)
		want(t, "status", ask(g, "lost again", "1", answered...).StatusCode, 201)
		d.lost.Store(false)
		d.wantForwards(t, g, "a receipt was seen", true)
		want(t, "errors", d.log.errors(), 0)
		rec, err := d.ops.Read(t.Context(), store.ID{Scope: "gateway//receipts", Key: "seen service POST /pay"})
		want(t, "mark", fmt.Sprint(rec.State, err), "done <nil>")
	})
}

// TestStartedGatewaySaysWhyItStops: a gateway that starts says one time in its log that no receipt was found yet, or that one was missing, so that an
// operator does not see only operations that need a decision.
func TestStartedGatewaySaysWhyItStops(t *testing.T) {
	t.Parallel()
	d := newDoubtful()
	g := d.gateway(t)
	for i := range 2 {
		d.wantForwards(t, g, fmt.Sprint("new ", i), false)
	}
	want(t, "lines about no receipt", d.log.count("has found no receipt of the route yet"), 1)
	want(t, "status", ask(g, "none", "1", answered...).StatusCode, 201)
	g = d.gateway(t)
	for i := range 2 {
		d.wantForwards(t, g, fmt.Sprint("missing ", i), false)
	}
	want(t, "lines about no receipt", d.log.count("has found no receipt of the route yet"), 2) // no receipt was ever seen
	want(t, "status", ask(g, "seen", "1", witnessed...).StatusCode, 201)
	g = d.gateway(t)
	want(t, "status", ask(g, "none again", "1", answered...).StatusCode, 201)
	g = d.gateway(t)
	for i := range 2 {
		d.wantForwards(t, g, fmt.Sprint("missing again ", i), false)
	}
	want(t, "warnings", d.log.count("was missing in the last 24 hours"), 1)
}

// TestBeginKnowsForwardsOfEarlierRequests: the forward after a tombstone is another forward of the same request, also if the first one was settled by a later request, by another
// gateway or by a Completer.
func TestBeginKnowsForwardsOfEarlierRequests(t *testing.T) {
	t.Parallel()
	for _, hashed := range []bool{false, true} {
		for _, by := range []string{"itself", "a later request", "another gateway", "a Completer", "a gateway without a store"} {
			if by == "a Completer" && hashed { // it refuses hashed keys
				continue
			}
			t.Run(fmt.Sprintf("settled by %s, hashed: %t", by, hashed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					defer func() { <-time.After(time.Hour) }() // hearts end
					d := newDoubtful()
					var began []bool
					start := func() *gateway.Gateway {
						return newGateway(t, "http://service", func(cfg *gateway.Config) {
							cfg.Dial, cfg.Receipts, cfg.Engine.HashKeys = d.dial, d, hashed
							cfg.Store = lease.New(d.ops, lease.Config{AskEvery: time.Nanosecond, Log: slog.New(slog.DiscardHandler)})
							cfg.Routes[0].OnUnknown = gateway.PolicyCheck
							cfg.Routes[0].Begin = func(again bool) (func(gateway.Forwarded), error) {
								began = append(began, again)
								return func(gateway.Forwarded) {}, nil
							}
							if by == "a gateway without a store" && len(began) > 0 {
								cfg.Store = nil
							}
						})
					}
					g := start()
					want(t, "status", ask(g, "warm", "1", witnessed...).StatusCode, 201)
					d.lost.Store(by != "itself")
					if by == "itself" {
						ask(g, "k", "1") // forwarded a few times
						if len(began) < 3 || began[0] || began[1] || !began[2] {
							t.Errorf("again: %v", began)
						}
						return
					}
					want(t, "code", codeOf(t, ask(g, "k", "1")), unknown)
					d.lost.Store(false)
					<-time.After(time.Minute)
					switch by {
					case "another gateway":
						g = start()
					case "a gateway without a store":
						g = start()
						if _, err := d.Settle(t.Context(), d.last.Load().(string)); err != nil {
							t.Fatal(err)
						}
					case "a Completer":
						ctx, stop := context.WithTimeout(t.Context(), time.Hour)
						defer stop()
						if err := (&lease.Completer{Store: lease.New(d.ops, lease.Config{}), AskOnly: true, Handlers: g.Handlers(), Log: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
							t.Error(err)
						}
						want(t, "tombstones and receipts", len(d.all), 2)
					}
					want(t, "status of the retry", ask(g, "k", "1", witnessed...).StatusCode, 201)
					want(t, "again", fmt.Sprint(began), "[false false true]")
				})
			})
		}
	}
}
