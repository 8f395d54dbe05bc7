// Package telemetry wires the log, the metrics and the spans of every part of a process from one value, so that none is forgotten.
//
//	tel := telemetry.Telemetry{Logger: logger, Metrics: metrics, Tracer: tracer} // an onceprom.Metrics and an onceotel.Telemetry, say
//	engine := once.New(s, tel.Engine(once.Config{}))
//	box := outbox.New(s, tel.Outbox(outbox.Config{}))
//	relay := box.Relay(publisher, tel.Relay(outbox.RelayConfig{}))
//	in := inbox.New(engine, tel.Inbox(inbox.Config{Consumer: "billing"}))
//	jobs := once.New(lease.New(s, tel.Lease(lease.Config{})), tel.Engine(once.Config{}))
//	runner := saga.NewRunner(s, tel.Saga(saga.Config{}), orders)
//	hooks := webhook.New(s, tel.Webhook(webhook.Config{}))
//	client := retryhttp.NewClient(tel.Client(&retryhttp.Transport{Keys: true}))
//
// It fills the fields that each configuration has for an observer, a tracer and a log: a part can be configured without it, too. It
// links neither Prometheus nor OpenTelemetry. Gauges are read by a gauge.Watch, which the metrics are made with and the parts are added to; they have no span, because
// they belong to no call.
package telemetry
