package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
)

// The gateway in front of a service that does nothing, against a bare httputil.ReverseProxy in front of it. The gateway adds two commits, which are
// also measured alone.

const (
	nameProxy      = "bare proxy"
	nameTwoCommits = "the store's two commits alone"
	nameForward    = "gateway"
	nameReplay     = "gateway, replays"
	nameReceipts   = "gateway, receipts alone"
	gatewayMode    = "gateway"
)

// gateways has the results of the section.
type gateways struct {
	Rows   []gatewayRow  `json:"rows"`
	Memory gatewayMemory `json:"memory"`
}

// gatewayRow is one store and one number of clients.
type gatewayRow struct {
	Store    string    `json:"store"`
	Clients  int       `json:"clients"`
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
}

// gatewayField is the service, the proxies in front of it, and their client.
type gatewayField struct {
	upstream *url.URL
	client   *http.Client
	closers  []func() error
}

const gatewayAnswer = `{"id":"ch_1","status":"succeeded"}`

// openGatewayField starts the service. It answers a request for "/large" with 64 MiB.
func openGatewayField(measure func()) (*gatewayField, error) {
	f := &gatewayField{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	address, err := f.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, &metered{r.Body, measure, 0})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if r.URL.Path == "/large" {
			_, _ = io.Copy(w, &metered{io.LimitReader(letters{}, gatewayDownload), measure, 0})
			return
		}
		_, _ = io.WriteString(w, gatewayAnswer)
	}))
	f.upstream = &url.URL{Scheme: "http", Host: strings.TrimPrefix(address, "http://")}
	return f, err
}

func (f *gatewayField) close() error {
	var errs []error
	for _, c := range f.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// serve returns the address of a handler.
func (f *gatewayField) serve(h http.Handler) (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	f.closers = append(f.closers, server.Close)
	return "http://" + l.Addr().String(), nil
}

// gateway returns the address of a gateway with a store, or with receipts.
func (f *gatewayField) gateway(ops store.Operations, receipts gateway.Receipts, cache int64) (string, error) {
	cfg := gateway.Config{
		Name: "service", Upstream: f.upstream, Principal: oncehttp.SharedPrincipal(), Receipts: receipts,
		Engine: once.Config{Observer: once.Discard, Cache: cache, CacheFor: time.Hour},
		Routes: []gateway.Route{{Pattern: "POST /pay", MaxRequest: 2 * gatewayUpload}, {Pattern: "POST /large"}},
	}
	if ops != nil {
		cfg.Store = lease.New(ops, lease.Config{Log: slog.New(slog.DiscardHandler)})
	}
	g, err := gateway.New(cfg)
	if err != nil {
		return "", err
	}
	return f.serve(g)
}

func (f *gatewayField) proxy() (string, error) {
	return f.serve(&httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(f.upstream)
			p.SetXForwarded()
		},
	})
}

// post sends a request and reads its answer.
func (f *gatewayField) post(ctx context.Context, address, key string, body io.Reader) (replayed bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return false, err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusCreated {
		return false, fmt.Errorf("%s answers %s", address, resp.Status)
	}
	return resp.Header.Get("Idempotent-Replayed") != "", nil
}

const gatewayRequest = `{"amount": 100, "currency": "eur"}`

// clocked is a contestant whose requests are timed one by one.
type clocked struct {
	contestant

	mu      sync.Mutex
	took    []float64
	medians []float64 // of each slice, warm-up included
}

// newClocked returns a contestant that sends requests. Without a key, each request gets a new one.
func (f *gatewayField) newClocked(name, address, key string) *clocked {
	t := &clocked{}
	t.contestant = contestant{name: name, before: t.cut, run: func(ctx context.Context) error {
		of := key
		if of == "" {
			of = once.NewKey()
		}
		began := time.Now()
		replayed, err := f.post(ctx, address+"/pay", of, strings.NewReader(gatewayRequest))
		if err == nil && replayed != (key != "") {
			err = fmt.Errorf("%s: replayed: %t", name, replayed)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.took = append(t.took, float64(time.Since(began)))
		return err
	}}
	return t
}

func (t *clocked) cut() {
	if len(t.took) > 0 {
		median, _, _ := spread(t.took)
		t.medians, t.took = append(t.medians, median), nil
	}
}

// twoCommits makes the two commits of a forward: the intent, and the answer.
func twoCommits(ops store.Operations) func(context.Context) error {
	return func(ctx context.Context) error {
		id := store.ID{Scope: "anyone POST /pay", Key: once.NewKey()}
		nonce := []byte(rand.Text())[:16]
		fingerprint := make([]byte, len(once.Fingerprint{}))
		intent := store.Record{State: store.StateRunning, Fence: 1, Nonce: nonce, Fingerprint: fingerprint, CallStarted: true, Data: make([]byte, 120), Name: "POST /pay"}
		if _, err := ops.Swap(ctx, store.Change{ID: id, Next: intent, Lease: lease.DefaultTTL}); err != nil {
			return err
		}
		answer := store.Record{State: store.StateDone, Fence: 2, Nonce: nonce, Data: make([]byte, 40), Result: store.Result{
			Status: http.StatusCreated, Body: []byte(gatewayAnswer), Header: []store.Field{{Name: "Content-Type", Value: "application/json"}},
		}}
		_, err := ops.Swap(ctx, store.Change{ID: id, Expect: store.Expect{Fence: 1, Nonce: nonce}, Next: answer, Retain: 72 * time.Hour, KeepRequest: true})
		return err
	}
}

// gatewayBar is the bar of an executed request on a store.
type gatewayBar struct {
	store    string
	atMost   float64
	ops      store.Operations
	receipts gateway.Receipts
	pool     *pgxpool.Pool // of the receipts
}

func (b *bench) gateway(ctx context.Context) (g *gateways, err error) {
	f, err := openGatewayField(func() {})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	g = &gateways{}
	for _, clients := range []int{1, 8} {
		stores, closeAll, err := b.gatewayStores(ctx, clients)
		if err != nil {
			return nil, err
		}
		for _, s := range stores {
			row, err := b.gatewayRow(ctx, f, s, clients)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", s.store, err), closeAll())
			}
			g.Rows = append(g.Rows, row)
		}
		if err := closeAll(); err != nil {
			return nil, err
		}
	}
	g.Memory, err = b.gatewayMemory(ctx)
	return g, err
}

func (b *bench) gatewayRow(ctx context.Context, f *gatewayField, s gatewayBar, clients int) (row gatewayRow, err error) {
	direct, err1 := f.proxy()
	through, err2 := f.gateway(s.ops, s.receipts, 64<<20)
	if err := errors.Join(err1, err2); err != nil {
		return row, err
	}
	bare, name := f.newClocked(nameProxy, direct, ""), nameForward
	if s.ops == nil {
		name = nameReceipts
	}
	forward := f.newClocked(name, through, "")
	r := race{clients, b.rounds, b.slice, b.server.cpu(), []*contestant{&bare.contestant, &forward.contestant}}
	var least *clocked
	if s.ops == nil {
		address, err := f.barest(s.pool)
		if err != nil {
			return row, err
		}
		least = f.newClocked(nameBarest, address, "")
		r.field = append(r.field, &least.contestant)
	} else {
		known := once.NewKey()
		if _, err := f.post(ctx, through+"/pay", known, strings.NewReader(gatewayRequest)); err != nil {
			return row, err
		}
		r.field = append(r.field, &contestant{name: nameTwoCommits, run: twoCommits(s.ops)}, &f.newClocked(nameReplay, through, known).contestant)
	}
	if err := r.run(ctx); err != nil {
		return row, err
	}
	bare.cut()
	forward.cut()
	row = gatewayRow{Store: s.store, Clients: clients, Verdicts: s.judge(r.field, bare, forward)}
	if least != nil {
		least.cut()
		row.Verdicts = append(row.Verdicts, mediansAndCPU(least, bare, 0, 0)...)
	}
	for _, c := range r.field {
		row.Figures = append(row.Figures, c.figure())
	}
	return row, nil
}

// judge compares round by round.
func (s gatewayBar) judge(field []*contestant, bare, forward *clocked) []verdict {
	if s.ops == nil {
		return mediansAndCPU(forward, bare, 1.6, 1.9)
	}
	var times []float64
	for i, l := range forward.laps {
		alone := bare.laps[i].wall + find(field, nameTwoCommits).laps[i].wall
		times = append(times, float64(l.wall)/float64(alone))
	}
	return []verdict{
		absolute("time of "+nameForward+" / ("+nameProxy+" + "+nameTwoCommits+")", times, s.atMost),
		judge(field, comparison{nameReplay, nameProxy, 1.2}), // of throughput, as is the next one
		judge(field, comparison{nameForward, nameProxy, 0}),
	}
}

// mediansAndCPU has the bars of medians and of CPU time; 0 means no bar.
func mediansAndCPU(over, under *clocked, median, cpu float64) []verdict {
	var medians, cpus []float64
	for i, l := range over.laps {
		medians = append(medians, over.medians[i+1]/under.medians[i+1])
		cpus = append(cpus, float64(l.cpu())/float64(under.laps[i].cpu()))
	}
	return []verdict{
		absolute("median time of "+over.name+" / "+under.name, medians, median),
		absolute("CPU time of "+over.name+" / "+under.name, cpus, cpu),
	}
}

func (g *gateways) write(p printer) {
	p("\n## Gateway\n")
	p("In front of a service that does nothing, all in one process. **%s** is httputil.ReverseProxy. A forward of the gateway is two commits, which", nameProxy)
	p("%s makes with nothing else. Replays come from the engine's cache. **%s** is the least program that looks a receipt up.", nameTwoCommits, nameBarest)
	for _, row := range g.Rows {
		p("\n### %s, clients: %d\n", row.Store, row.Clients)
		p("| | ratio | bar | |")
		p("|---|---|---|---|")
		for _, v := range row.Verdicts {
			p("| %s | %s |", v.What, v.cells())
		}
		p("\n| per request here | CPU client | CPU server | requests a second |")
		p("|---|---|---|---|")
		for _, f := range row.Figures {
			p("| %s | %.0f µs | %.0f µs | %.0f |", f.Name, micros(f.Client), micros(f.Server), f.PerSecond)
		}
	}
	m := g.Memory
	p("\n### Memory\n")
	p("| | grows to | bar | |")
	p("|---|---|---|---|")
	p("| resident memory of a gateway on PostgreSQL, from %d to %d requests | %s |", m.Requests/10, m.Requests, m.Resident.cells())
	p("| MiB of heap, 100 MiB up and 64 MiB down | %s |", m.Heap.cells())
}
