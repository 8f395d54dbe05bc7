package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/retention"
	"github.com/oncelib/once/store"
)

// ends has the two listeners: one for callers, and one for operators.
type ends struct {
	public, admin net.Listener
	isTLS         bool
}

// listen opens both listeners.
func listen(ctx context.Context, cfg *config) (ends, error) {
	e := ends{isTLS: cfg.TLS != nil}
	var err error
	if e.public, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
		return e, fmt.Errorf("%w. Try: use another address for --listen", err)
	}
	if e.admin, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Admin); err != nil {
		return e, errors.Join(fmt.Errorf("%w. Try: use another address for --admin", err), e.public.Close())
	}
	return e, nil
}

func (e ends) url() string {
	if e.isTLS {
		return "https://" + e.public.Addr().String()
	}
	return "http://" + e.public.Addr().String()
}

func (e ends) close() { _, _ = e.public.Close(), e.admin.Close() }

// daemon serves a proxy until it is stopped.
type daemon struct {
	proxy   *proxy
	ends    ends
	counted *onceprom.Metrics
	wait    duration // from the failure of /readyz until the listener is closed
	timeout duration // how long running requests may take until the end

	draining atomic.Bool
	asking   sync.Mutex // held while the store is asked, so that many probes do not ask at the same time
	wrote    time.Time  // when the store was last written; guarded by asking
}

// serve serves until ctx ends, then drains. Each signal of hup is a reload.
func (d *daemon) serve(ctx context.Context, hup <-chan os.Signal, reload func()) error {
	log := slog.NewLogLogger(d.proxy.log.Handler(), slog.LevelWarn)
	public := &http.Server{Handler: d.proxy, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: log, Protocols: new(http.Protocols)}
	public.Protocols.SetHTTP1(true)
	public.Protocols.SetHTTP2(true)
	public.Protocols.SetUnencryptedHTTP2(true)
	admin := &http.Server{Handler: d.admin(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log}
	defer func() { _ = admin.Close() }() // an interrupted scrape is repeated
	failed := make(chan error, 2)
	go func() { failed <- admin.Serve(d.ends.admin) }()
	go func() {
		if !d.ends.isTLS {
			failed <- public.Serve(d.ends.public)
			return
		}
		public.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: d.proxy.certificate}
		failed <- public.ServeTLS(d.ends.public, "", "")
	}()
	for {
		select {
		case <-hup:
			reload()
		case err := <-failed:
			return errors.Join(err, public.Close())
		case <-ctx.Done():
			return d.drain(context.WithoutCancel(ctx), public)
		}
	}
}

// drain stops the server. First, /readyz fails. Requests that arrive until the load balancer notices this failure are still served.
func (d *daemon) drain(ctx context.Context, public *http.Server) error {
	d.draining.Store(true)
	d.proxy.log.InfoContext(ctx, "the gateway is ending, and /readyz now fails", slog.Duration("wait", time.Duration(d.wait)))
	timer := time.NewTimer(time.Duration(d.wait))
	defer timer.Stop()
	<-timer.C
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.timeout))
	defer cancel()
	if err := public.Shutdown(ctx); err != nil {
		_ = public.Close()
		return fmt.Errorf("requests took longer than drain_timeout (%v), so the gateway has cut these requests off: %w. Try: use a drain_timeout that is longer than the timeout of each route", time.Duration(d.timeout), err)
	}
	d.proxy.log.InfoContext(ctx, "the gateway has ended, and no request is running")
	return nil
}

const (
	askTime    = 2 * time.Second // the longest time for the question whether the store answers and can be written
	writeEvery = 2 * time.Second // the store is not written more often than that, as long as writing succeeds
)

// admin serves the endpoints for operators and monitoring.
func (d *daemon) admin() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(d.counted)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch err := d.ready(r.Context()); {
		case d.draining.Load():
			http.Error(w, "the gateway is ending", http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprintln(w, "ok")
		}
	})
	return mux
}

// These errors are the answers of /readyz. The log has their causes.
var (
	errSilent   = errors.New("the database of the gateway does not answer")
	errNoTables = errors.New("the database of the gateway has no tables. Try: once migrate up")
	errReadOnly = errors.New("the gateway can read its database, but cannot write to it")
)

// ready asks whether the store answers and can be written: a server may be read-only, or its disk full.
func (d *daemon) ready(ctx context.Context) error {
	if d.draining.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	d.asking.Lock()
	defer d.asking.Unlock()
	says, err := errSilent, ctx.Err()
	if err == nil {
		err = d.proxy.back.ask(ctx)
	}
	if write := d.proxy.back.write; err == nil && write != nil && time.Since(d.wrote) >= writeEvery {
		says = errReadOnly
		if err = write(ctx); err == nil {
			d.wrote = time.Now()
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotMigrated):
		says = errNoTables
	}
	d.proxy.log.WarnContext(ctx, "not ready: "+says.Error(), slog.Any("error", err))
	return says
}

// count counts what callers have stored, until stop is called.
func (p *proxy) count(ctx context.Context) (stop func()) {
	if p.back.quota == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.back.quota.Run(ctx) // until stop
	}()
	return func() { cancel(); <-ended }
}

// sweep deletes keys after their retention, until stop is called.
func (p *proxy) sweep(ctx context.Context) (stop func()) {
	if p.back.ops == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	sweeper := retention.New(p.back.ops, retention.Config{Observe: func(pass retention.Pass) {
		if pass.Err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "the gateway cannot delete expired keys, and tries again later", slog.Any("error", pass.Err))
		}
	}})
	go func() {
		defer close(ended)
		_ = sweeper.Run(ctx) // until stop
	}()
	return func() { cancel(); <-ended }
}
