package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/telemetry"
)

// Exporter sends traces and metrics to the collector at a URL. It returns a tracer that also counts, and a function that sends the rest.
type Exporter func(ctx context.Context, url, service string, log *slog.Logger, watch *gauge.Watch) (_ telemetry.Tracer, flush func(), err error)

// exporter is the exporter of this build, or nil.
var exporter Exporter

// Register gives this build an exporter, before any is started.
func Register(e Exporter) { exporter = e }

// OTLP is the flag --otlp: it sends traces and metrics to an OpenTelemetry collector.
type OTLP struct{ URL string }

// Flags adds the flag.
func (c *OTLP) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.URL, "otlp", "", "send traces and metrics to the OpenTelemetry collector at this `URL`, such as http://127.0.0.1:4318 (default: send none)")
}

// Check refuses an invalid URL, before anything is opened.
func (c *OTLP) Check() error {
	if c.URL == "" {
		return nil
	}
	if exporter == nil {
		return cli.Usage("--otlp: this build of the command once has no OpenTelemetry", cli.FullBuild)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cli.Usage(fmt.Sprintf("--otlp %q is not the URL of a collector", c.URL), "--otlp http://127.0.0.1:4318")
	}
	c.URL = strings.TrimRight(c.URL, "/")
	return nil
}

// Start returns a tracer, or nil without a URL. flush sends the rest.
func (c *OTLP) Start(ctx context.Context, service string, log *slog.Logger, watch *gauge.Watch) (_ telemetry.Tracer, flush func(), err error) {
	if c.URL == "" {
		return nil, func() {}, nil
	}
	return exporter(ctx, c.URL, service, log, watch)
}
