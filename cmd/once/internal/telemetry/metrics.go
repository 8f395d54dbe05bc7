// Package telemetry has the instruments of processes that once runs: metrics for Prometheus, and traces and metrics for OpenTelemetry.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/onceprom"
)

// Metrics is the flag --metrics: the instruments of this process. Prometheus reads them at a listener of their own, which users of the service cannot
// reach.
type Metrics struct {
	Address  string
	listener net.Listener // nil if no metrics are served
}

// Flags adds the flag.
func (c *Metrics) Flags(fs *pflag.FlagSet, address string) {
	fs.StringVar(&c.Address, "metrics", address, "`ADDRESS` at which to serve /metrics for Prometheus"+words.Either(address == "", " (default: serve no metrics)", ", or \"\" to serve no metrics"))
}

// Listen opens the listener. Call it before anything that would be left behind if the address is in use.
func (c *Metrics) Listen(ctx context.Context) (err error) {
	if c.Address == "" {
		return nil
	}
	if c.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address); err != nil {
		return fmt.Errorf("%w. Try: --metrics 127.0.0.1:0, which takes a free port", err)
	}
	return nil
}

// Served reports whether Listen has opened a listener.
func (c *Metrics) Served() bool { return c.listener != nil }

// Watch reads the gauges until stop is called.
func Watch(ctx context.Context, log *slog.Logger, every time.Duration, sources []gauge.Source) (watch *gauge.Watch, stop func()) {
	watch = gauge.NewWatch(gauge.Config{Every: every, Log: log}, sources...)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = watch.Run(ctx) }) // it returns when stop is called
	return watch, func() { cancel(); running.Wait() }
}

// Start returns the instruments, which are served until stop is called, or nil if they are not served.
func (c *Metrics) Start(m *cli.Env, log *slog.Logger, watch *gauge.Watch) (counted *onceprom.Metrics, stop func()) {
	if c.listener == nil {
		return nil, func() {}
	}
	counted = onceprom.New(onceprom.Config{Gauges: watch})
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}

	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(c.listener) }) // it returns when stop is called
	fmt.Fprintf(m.Stdout, "metrics   http://%s/metrics\n", c.listener.Addr())
	return counted, func() {
		_ = server.Close() // an interrupted scrape is repeated
		running.Wait()
	}
}

// Close ends a listener that was not started.
func (c *Metrics) Close() {
	if c.listener != nil {
		_ = c.listener.Close()
	}
}
