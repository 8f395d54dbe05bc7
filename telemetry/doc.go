// Package telemetry configures the log, the metrics and the spans of all parts of a process (engine, outbox, inbox, ...) from one value, so that no
// part is forgotten.
//
//	tel := telemetry.Telemetry{Logger: logger, Metrics: metrics, Tracer: tracer} // for example, an onceprom.Metrics and an onceotel.Telemetry
//	engine := once.New(s, tel.Engine(once.Config{}))
//	box := outbox.New(s, tel.Outbox(outbox.Config{}))
//	relay := box.Relay(publisher, tel.Relay(outbox.RelayConfig{}))
//	in := inbox.New(engine, tel.Inbox(inbox.Config{Consumer: "billing"}))
//	jobs := once.New(lease.New(s, tel.Lease(lease.Config{})), tel.Engine(once.Config{}))
//	runner := saga.NewRunner(s, tel.Saga(saga.Config{}), orders)
//	hooks := webhook.New(s, tel.Webhook(webhook.Config{}))
//	client := retryhttp.NewClient(tel.Client(&retryhttp.Transport{Keys: true}))
//
// The methods of Telemetry fill the fields for observers, tracers and logs in the configuration of each part. You can set the fields for observers,
// tracers and logs yourself instead. The package imports neither Prometheus nor OpenTelemetry. The package does not configure gauges: pass a
// gauge.Watch to the metrics, and add the parts to the Watch. Gauges have no spans, because a gauge belongs to no call.
package telemetry
