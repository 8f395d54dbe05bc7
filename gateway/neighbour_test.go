package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// pool is receipts that so many goroutines can ask at once. Those of a sick route wait for a transaction that does not end.
type pool struct {
	*memory

	conns   chan struct{}
	held    chan struct{} // one for each question that waits for a transaction
	release chan struct{} // ends the transactions
}

func (p *pool) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	select {
	case p.conns <- struct{}{}:
		defer func() { <-p.conns }()
	case <-ctx.Done():
		return gateway.Receipt{}, ctx.Err()
	}
	if _, found, _ := p.Look(ctx, operation); !found {
		p.held <- struct{}{}
		<-p.release
		return gateway.Receipt{}, errors.New("the transaction has taken too long")
	}
	return p.memory.Settle(ctx, operation)
}

// TestSickRouteTakesNoReceipts: transactions of one route hold their receipts, and all its questions wait. A route beside it, which needs the
// receipts as well, has its share of them.
func TestSickRouteTakesNoReceipts(t *testing.T) {
	t.Parallel()
	const conns = 4
	p := &pool{memory: &memory{}, conns: make(chan struct{}, conns), held: make(chan struct{}, 100), release: make(chan struct{})}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/well" || r.Header.Get("X-Warm") != "" {
			p.put(gateway.Receipt{Operation: r.Header.Get(gateway.OperationHeader), Status: 201, Body: []byte("paid")})
		}
		if r.Header.Get("X-Warm") != "" {
			w.WriteHeader(http.StatusCreated)
			return
		}
		panic(http.ErrAbortHandler) // after its commit, or while its transaction goes on
	}))
	t.Cleanup(service.Close)
	g := newGateway(t, service.URL, func(c *gateway.Config) {
		c.Receipts, c.ReceiptsAtOnce = p, conns
		c.Routes = []gateway.Route{{Pattern: "POST /sick", OnUnknown: gateway.PolicyCheck}, {Pattern: "POST /well", OnUnknown: gateway.PolicyCheck}}
	})
	keyed := func(path, key string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("1"))
		r.Header.Set("Idempotency-Key", key)
		return send(g, r)
	}
	warm(t, g, "/sick")
	warm(t, g, "/well")
	var sick sync.WaitGroup
	for i := range 4 * conns {
		sick.Go(func() { keyed("/sick", fmt.Sprint("k", i)) })
	}
	for range conns / 2 { // its share
		<-p.held
	}
	for i := range 10 {
		want(t, "beside a sick route", bodyOf(t, keyed("/well", fmt.Sprint("k", i))), "paid")
	}
	close(p.release)
	sick.Wait()
}

// holding is receipts whose calls of Settle wait. It counts the calls that run.
type holding struct {
	*memory

	running, most atomic.Int64
	release       chan struct{}
	holds         atomic.Bool
}

func (h *holding) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	n := h.running.Add(1)
	defer h.running.Add(-1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}
	if h.holds.Load() {
		select {
		case <-h.release:
		case <-ctx.Done():
			return gateway.Receipt{}, ctx.Err()
		}
	}
	return h.memory.Settle(ctx, operation)
}

// TestReceiptsAtOnceIsALimit: no more calls run, with however many routes. Routes that read no receipts have no share of the calls, and one route cannot take all of them.
func TestReceiptsAtOnceIsALimit(t *testing.T) {
	t.Parallel()
	const atOnce = 4
	for name, c := range map[string]struct{ check, stop, sick, running int }{
		"more routes than calls":           {20, 0, 20, atOnce},
		"one sick route of many":           {20, 0, 1, 1},
		"one sick route of two":            {2, 0, 1, atOnce / 2},
		"one route":                        {1, 0, 1, atOnce},
		"routes that read no receipts":     {2, 30, 2, atOnce},
		"one beside routes that read none": {1, 30, 1, atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer func() { <-time.After(time.Hour) }() // hearts end
				h := &holding{memory: &memory{}, release: make(chan struct{})}
				g := newGateway(t, "http://service", func(cfg *gateway.Config) {
					cfg.Receipts, cfg.ReceiptsAtOnce, cfg.Dial = h, atOnce, committing(h.memory, new(atomic.Int64))
					cfg.Store = lease.New(memstore.New(), lease.Config{Log: slog.New(slog.DiscardHandler)})
					cfg.Routes = nil
					for i := range c.check {
						cfg.Routes = append(cfg.Routes, gateway.Route{Pattern: fmt.Sprintf("POST /check/%d", i), OnUnknown: gateway.PolicyCheck})
					}
					for i := range c.stop {
						cfg.Routes = append(cfg.Routes, gateway.Route{Pattern: fmt.Sprintf("POST /stop/%d", i)})
					}
				})
				for i := range c.check {
					warm(t, g, fmt.Sprint("/check/", i))
				}
				h.holds.Store(true)
				var sick sync.WaitGroup
				keyed := func(route, key int) int {
					r := httptest.NewRequest(http.MethodPost, fmt.Sprint("/check/", route), strings.NewReader("1"))
					r.Header.Set("Idempotency-Key", fmt.Sprint("k", key))
					return send(g, r).StatusCode
				}
				for i := range c.sick {
					for key := range 2 * atOnce {
						sick.Go(func() { keyed(i, key) })
					}
				}
				synctest.Wait()
				want(t, "calls at once", h.running.Load(), int64(c.running))
				if c.running < atOnce { // another route is not delayed
					h.holds.Store(false)
					began := time.Now()
					for i := range c.check - 1 {
						want(t, "status beside a sick route", keyed(i+1, 0), 201)
					}
					want(t, "delay beside a sick route", time.Since(began), time.Duration(0))
				}
				h.holds.Store(false)
				close(h.release)
				sick.Wait()
				if most := h.most.Load(); most > atOnce {
					t.Errorf("%d calls ran at once, the limit is %d", most, atOnce)
				}
			})
		})
	}
}

// TestOmittedAnswerIsInTheReceipt: an answer that was too large to be stored is told by the receipt.
func TestOmittedAnswerIsInTheReceipt(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1000)
	m := &memory{}
	var s *raw
	s = newRaw1(t, func(int64) (string, bool) {
		m.put(gateway.Receipt{Operation: s.last.Header.Get(gateway.OperationHeader), Status: 201, Body: []byte(large)})
		return fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(large), large), true
	})
	g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
		c.Receipts, c.Routes[0].OnUnknown, c.Routes[0].MaxStored = m, gateway.PolicyCheck, 100
	})
	want(t, "status of the first answer", ask(g, "k", "1").Header.Get("Idempotency-Status"), "omitted")
	for range 2 {
		resp := ask(g, "k", "1")
		want(t, "status", resp.Header.Get("Idempotency-Status"), "replayed")
		want(t, "body", bodyOf(t, resp), large)
	}
	want(t, "another request", ask(g, "k", "2").StatusCode, 422)
	m.all = nil // it was swept
	want(t, "code", codeOf(t, ask(g, "k", "1")), omitted)
	want(t, "forwards", s.seen.Load(), int64(1))
}

// gate tells when a request has left its place.
type gate struct{ left chan struct{} }

func (g gate) Enter(*http.Request, limit.Replay) (func(), *limit.Refusal) {
	return func() { g.left <- struct{}{} }, nil
}

// TestSlowClientsLeaveTheirPlace: a client that sends a part of its body, one that reads nothing of a long answer, and one that has gone from
// events that do not come, have no place of the route for longer than its times.
func TestSlowClientsLeaveTheirPlace(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Events") != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}))
	t.Cleanup(service.Close)
	for _, alone := range []bool{false, true} {
		left := gate{make(chan struct{}, 10)}
		front := served(t, newGateway(t, service.URL, func(c *gateway.Config) {
			if c.Receipts = (&memory{}); alone {
				c.Store = nil
			}
			c.Routes[0].Gate, c.Routes[0].BodyTimeout, c.Routes[0].Timeout = left, 50*time.Millisecond, time.Second
		}))
		for name, request := range map[string]string{
			"sends a part":  "Content-Length: 10\r\n\r\n1",
			"reads nothing": "Content-Length: 1\r\n\r\n1",
			"goes":          "X-Events: 1\r\nContent-Length: 1\r\n\r\n1",
		} {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(front, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, "POST /pay HTTP/1.1\r\nHost: x\r\nIdempotency-Key: "+strings.ReplaceAll(name, " ", "-")+"\r\n"+request)
			if name == "goes" {
				_, _ = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}
			<-left.left
			_ = conn.Close()
		}
	}
}

// losing is a connection that can be made dead: what is written to it is lost.
type losing struct {
	net.Conn

	dead *atomic.Bool
}

func (l losing) Write(p []byte) (int, error) {
	if l.dead.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
}

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// http2On returns a server of HTTP/2 in memory, and what connects to it.
func http2On(h http.Handler) (dial func(context.Context, string, string) (net.Conn, error), end func()) {
	conns := make(pipes)
	server := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(conns) }()
	return func(context.Context, string, string) (net.Conn, error) {
			client, service := net.Pipe()
			conns <- service
			return client, nil
		}, func() {
			close(conns)
			_ = server.Close()
		}
}

// onPipes is a gateway with a store whose service is reached by dial.
func onPipes(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) *gateway.Gateway {
	t.Helper()
	return newGateway(t, "h2c://service", func(c *gateway.Config) {
		c.Routes[0].Timeout, c.Dial = time.Second, dial
		c.Store = lease.New(memstore.New(), lease.Config{Log: slog.New(slog.DiscardHandler)})
	})
}

// TestDeadConnectionIsNoticed: the network has lost the connection that all requests on HTTP/2 share. Those of the first seconds are unknown, and then
// another connection is made.
func TestDeadConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dead []*atomic.Bool
		dial, end := http2On(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
		g := onPipes(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			dead = append(dead, new(atomic.Bool))
			return losing{conn, dead[len(dead)-1]}, err
		})
		want(t, "before", ask(g, "k", "1").StatusCode, 201)
		dead[0].Store(true)
		lost := 0
		for i := range 40 {
			if ask(g, fmt.Sprint("k", i), "1").StatusCode != http.StatusCreated {
				lost++
			}
		}
		if lost == 0 || lost > 15 {
			t.Errorf("%d of 40 requests are lost with one connection", lost)
		}
		g.Close()
		end()
		<-time.After(time.Hour) // hearts end
	})
}

// TestSilentStreamGoesOn: a stream whose service is silent for longer than all times of the route is not broken, on HTTP/2 as well.
func TestSilentStreamGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, end := http2On(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				_, _ = io.WriteString(w, "event\n")
				_ = http.NewResponseController(w).Flush()
				<-time.After(5 * time.Minute)
			}
		}))
		g := onPipes(t, dial)
		front, endFront := http2On(g)
		client := &http.Transport{DialContext: front, Protocols: new(http.Protocols)}
		client.Protocols.SetUnencryptedHTTP2(true)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/pay", strings.NewReader("1"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		resp, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "events", bodyOf(t, resp), "event\nevent\nevent\n")
		client.CloseIdleConnections()
		g.Close()
		endFront()
		end()
		<-time.After(time.Hour) // hearts end
	})
}

// full is a store that can be read alone.
type full struct {
	*memstore.Store

	kind store.Kind
}

func (f full) Swap(context.Context, store.Change) (store.Record, error) {
	return store.Record{}, &store.Error{Kind: f.kind, Err: errors.New("the disk is full")}
}

// TestStoreThatCannotBeWritten: nothing is forwarded, and the client comes again.
func TestStoreThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	for kind, applied := range map[store.Kind]bool{store.KindOther: false, store.KindUnavailable: false, store.KindLost: true} {
		g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) { c.Store = lease.New(full{memstore.New(), kind}, lease.Config{}) })
		resp := ask(g, "k", "1")
		want(t, "status", resp.StatusCode, http.StatusServiceUnavailable)
		want(t, "the client is told when to come again", resp.Header.Get("Retry-After") != "", true)
		want(t, "it may be applied", !strings.Contains(bodyOf(t, resp), "Nothing was applied"), applied)
	}
	want(t, "requests", s.seen.Load(), int64(0))
}

// counted counts what a store is asked.
type counted struct {
	*memstore.Store

	reads, writes atomic.Int64
}

func (c *counted) Read(ctx context.Context, id store.ID) (store.Record, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, id)
}

func (c *counted) Swap(ctx context.Context, change store.Change) (store.Record, error) {
	c.writes.Add(1)
	return c.Store.Swap(ctx, change)
}

// TestForwardIsTwoWrites: a forward asks its store for nothing but its two commits, and a replay for none.
func TestForwardIsTwoWrites(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	c := &counted{Store: memstore.New()}
	at := func() *gateway.Gateway {
		return newGateway(t, "http://"+s.addr, func(cfg *gateway.Config) { cfg.Store = lease.New(c, lease.Config{}) })
	}
	g := at()
	want(t, "status", ask(g, "k", "1").Header.Get("Idempotency-Status"), "stored")
	want(t, "reads of a forward", c.reads.Load(), int64(0))
	want(t, "writes of a forward", c.writes.Load(), int64(2))
	want(t, "status", ask(g, "k", "1").Header.Get("Idempotency-Status"), "replayed")
	want(t, "reads of a replay", c.reads.Load(), int64(1))
	want(t, "writes of a replay", c.writes.Load(), int64(2))
	want(t, "status at another gateway", ask(at(), "k", "1").Header.Get("Idempotency-Status"), "replayed")
	want(t, "status of another request", ask(at(), "k", "2").StatusCode, 422)
	want(t, "forwards", s.seen.Load(), int64(1))
}
