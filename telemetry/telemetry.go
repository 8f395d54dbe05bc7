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

// Metrics counts the work of the engine and of the other parts. *onceprom.Metrics and *onceotel.Telemetry implement
// Metrics.
type Metrics interface {
	once.Observer
	instrument.Recorder
}

// Tracer makes the spans of all parts. *onceotel.Telemetry implements Tracer. A Tracer also records metrics, in addition to
// Telemetry.Metrics. If Telemetry.Tracer and Telemetry.Metrics are the same value, each event is counted only one time.
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

// Telemetry has the log, the metrics and the tracer to which the parts of a process report their events. Each method of Telemetry takes the
// configuration of a part, fills the fields for reporting, and returns the configuration. Fields that are already set are not replaced; an observer
// that is already set is called before the new observers. With the zero value of Telemetry, the parts log warnings and errors to [slog.Default], as
// parts without any telemetry do.
type Telemetry struct {
	Logger  *slog.Logger // gets the log; default: warnings and errors go to slog.Default()
	Metrics Metrics      // counts the work of all parts; default: nil, no metrics
	Tracer  Tracer       // makes spans of all parts; default: nil, no spans
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

// observers returns the observer that is set already, one observer for each recorder, and the log.
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

// Engine returns cfg with the logger, the metrics and the tracer of t, for [once.New].
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

// Outbox returns cfg with its field Trace set to a function of t.Tracer, for [outbox.New].
func (t Telemetry) Outbox(cfg outbox.Config) outbox.Config {
	cfg.Trace = t.traceOf(cfg.Trace)
	return cfg
}

// Relay returns cfg with the logger, the metrics and the tracer of t, for [outbox.Box.Relay].
func (t Telemetry) Relay(cfg outbox.RelayConfig) outbox.RelayConfig {
	cfg.Observer = outbox.Observers(observers(t, cfg.Observer, outbox.Metrics, outbox.Log(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Inbox returns cfg with the logger, the metrics and the tracer of t, for [inbox.New]. The engine of the inbox reports the transactions of the inbox.
// Set the field Log of a broker's ConsumerConfig to Telemetry.Logger yourself.
func (t Telemetry) Inbox(cfg inbox.Config) inbox.Config {
	cfg.Observer = inbox.Observers(observers(t, cfg.Observer, inbox.Metrics, inbox.Log(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Lease returns cfg with the logger and the tracer of t, for [lease.New]. The engine that uses the lease store counts the
// operations.
func (t Telemetry) Lease(cfg lease.Config) lease.Config {
	if cfg.Log == nil {
		cfg.Log = t.Logger
	}
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Completer returns c with the logger of t. The engine and the store that c uses count and trace the resumed operations.
func (t Telemetry) Completer(c lease.Completer) lease.Completer {
	if c.Log == nil {
		c.Log = t.Logger
	}
	return c
}

// Saga returns cfg with the logger, the metrics and the tracer of t, for [saga.NewRunner].
func (t Telemetry) Saga(cfg saga.Config) saga.Config {
	cfg.Observer = saga.Observers(observers(t, cfg.Observer, saga.Metrics, saga.Log(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Webhook returns cfg with its field Trace set to a function of t.Tracer, for [webhook.New].
func (t Telemetry) Webhook(cfg webhook.Config) webhook.Config {
	cfg.Trace = t.traceOf(cfg.Trace)
	return cfg
}

// WebhookRelay returns cfg with the logger, the metrics and the tracer of t, for the relay of webhooks.
func (t Telemetry) WebhookRelay(cfg webhook.RelayConfig) webhook.RelayConfig {
	cfg.Observer = webhook.RelayObservers(observers(t, cfg.Observer, webhook.RelayMetrics, webhook.LogRelay(t.Logger))...)
	if cfg.Tracer == nil && t.Tracer != nil {
		cfg.Tracer = t.Tracer
	}
	return cfg
}

// Client returns a copy of the transport with the logger, the metrics and the tracer of t. The Policy of the copy is the result of
// [Telemetry.Policy]. A nil transport means the zero [retryhttp.Transport].
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

// Policy returns p with the logger and the metrics of t, for [retry.Do]. To get spans too, pass the policy to the method Do of an onceotel.Telemetry.
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
