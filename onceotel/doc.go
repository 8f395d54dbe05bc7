// Package onceotel reports operations, their retries and their messages to OpenTelemetry: as spans, and as the same metrics that package onceprom
// has.
//
//	tel, err := onceotel.New(onceotel.Config{TracerProvider: tp, MeterProvider: mp, Broker: "nats"})
//	all := telemetry.Telemetry{Logger: log, Metrics: tel, Tracer: tel} // its methods fill the configuration of every part
//	engine := once.New(s, all.Engine(once.Config{}))
//
// You can also set a Telemetry in the configuration of single parts: as the Observer of an engine, and as the Tracer of a relay, an inbox, a lease
// store, a runner of sagas, a relay of webhooks and a retry client.
//
// The span of an operation is a child of the span in the context, such as the span of an HTTP server. The trace context of this span is stored with
// the operation, and the span of a replay links to the stored span. Scopes, keys and tenants are never attributes of metrics; a span has the hash of
// the key.
package onceotel
