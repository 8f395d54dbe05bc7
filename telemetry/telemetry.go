package telemetry

import (
	"context"
	"log/slog"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/webhook"
)

// Metrics counts the work of the engine and the other parts. An onceprom.Metrics is one, and so is an onceotel.Telemetry.
type Metrics interface {
	once.Observer
	instrument.Recorder
}

// Tracer makes the spans of all parts. An onceotel.Telemetry is one. It counts in addition to Telemetry.Metrics; if both are the same value,
// it counts once.
type Tracer interface {
	Metrics
	once.Tracer
	outbox.Tracer
	inbox.Tracer
	lease.Tracer
	saga.Tracer
	webhook.Tracer
	retryhttp.Tracer
}

// Telemetry is where the parts of a process report their events. Its methods take the configuration of a part and fill in the fields
// that report. Fields that are set stay, and an observer that is set is called first. The zero value
// logs warnings and errors to [slog.Default], as parts without any telemetry do.
type Telemetry struct {
	Logger  *slog.Logger // default: warnings and errors go to slog.Default()
	Metrics Metrics      // default: no metrics
	Tracer  Tracer       // default: no spans
}

// recorders are Metrics and the tracer's own counters, each once.
func (t Telemetry) recorders() (list []Metrics) {
	if t.Metrics != nil {
		list = append(list, t.Metrics)
	}
	if t.Tracer != nil && Metrics(t.Tracer) != t.Metrics {
		list = append(list, t.Tracer)
	}
	return list
}

// traceOf returns the function that reads the trace of a context.
func (t Telemetry) traceOf(set func(context.Context) string) func(context.Context) string {
	if set == nil && t.Tracer != nil {
		return t.Tracer.SagaTrace
	}
	return set
}

// observers are that which is set, one of each recorder, and the log.
func observers[O comparable](t Telemetry, set O, metrics func(instrument.Recorder) O, log O) (list []O) {
	var none O
	if set != none {
		list = append(list, set)
	}
	for _, r := range t.recorders() {
		list = append(list, metrics(r))
	}
	return append(list, log)
}

// Engine is for [once.New].
func (t Telemetry) Engine(cfg once.Config) once.Config {
	var list []once.Observer
	if cfg.Observer != nil {
		list = append(list, cfg.Observer)
	}
	for _, r := range t.recorders() {
		list = append(list, r)
	}
	log := once.Warnings
	if t.Logger != nil {
		log = once.Log(t.Logger)
	}
	cfg.Observer = once.Observers(append(list, log)...)
	return cfg
}

// Outbox is for [outbox.New].
func (t Telemetry) Outbox(cfg outbox.Config) outbox.Config {
	cfg.Trace = t.traceOf(cfg.Trace)
	return cfg
}

// Relay is for the Relay of an outbox.
func (t Telemetry) Relay(cfg outbox.RelayConfig) outbox.RelayConfig {
	cfg.Observer = outbox.Observers(observers(t, cfg.Observer, outbox.Metrics, outbox.Log(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Inbox is for [inbox.New]. The engine of the inbox reports the transactions. Consumers of brokers have a Log of their own, which is Telemetry.Logger.
func (t Telemetry) Inbox(cfg inbox.Config) inbox.Config {
	cfg.Observer = inbox.Observers(observers(t, cfg.Observer, inbox.Metrics, inbox.Log(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Lease is for [lease.New]. The engine counts the operations.
func (t Telemetry) Lease(cfg lease.Config) lease.Config {
	if cfg.Log == nil {
		cfg.Log = t.Logger
	}
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Completer returns a Completer that logs. Its engine and its store count and trace the resumed operations.
func (t Telemetry) Completer(c lease.Completer) lease.Completer {
	if c.Log == nil {
		c.Log = t.Logger
	}
	return c
}

// Saga is for [saga.NewRunner].
func (t Telemetry) Saga(cfg saga.Config) saga.Config {
	cfg.Observer = saga.Observers(observers(t, cfg.Observer, saga.Metrics, saga.Log(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Webhook is for [webhook.New].
func (t Telemetry) Webhook(cfg webhook.Config) webhook.Config {
	cfg.Trace = t.traceOf(cfg.Trace)
	return cfg
}

// WebhookRelay is for the Relay of webhooks.
func (t Telemetry) WebhookRelay(cfg webhook.RelayConfig) webhook.RelayConfig {
	cfg.Observer = webhook.RelayObservers(observers(t, cfg.Observer, webhook.RelayMetrics, webhook.LogRelay(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Client returns a copy of a transport, with [Telemetry.Policy]. A nil transport is the zero one.
func (t Telemetry) Client(of *retryhttp.Transport) *retryhttp.Transport {
	var own retryhttp.Transport
	if of != nil {
		own = *of
	}
	own.Policy = t.Policy(own.Policy)
	if own.Tracer == nil && t.Tracer != nil {
		own.Tracer = t.Tracer
	}
	return &own
}

// Policy is for [retry.Do], and for Do of an onceotel.Telemetry, which makes spans.
func (t Telemetry) Policy(p retry.Policy) retry.Policy {
	var list []func(context.Context, retry.Event)
	if p.Observe != nil {
		list = append(list, p.Observe)
	}
	for _, r := range t.recorders() {
		list = append(list, retry.Metrics(r))
	}
	list = append(list, retry.Log(t.Logger))
	p.Observe = func(ctx context.Context, e retry.Event) {
		for _, each := range list {
			each(ctx, e)
		}
	}
	return p
}
