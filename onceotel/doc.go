// Package onceotel reports operations, retries and messages to OpenTelemetry: as spans, and as metrics. The metrics are the same as in package
// onceprom.
//
//	tel, err := onceotel.New(onceotel.Config{TracerProvider: tp, MeterProvider: mp, Broker: "nats"})
//	all := telemetry.Telemetry{Logger: log, Metrics: tel, Tracer: tel} // its methods fill the configuration of every part
//	engine := once.New(s, all.Engine(once.Config{}))
//
// You can also set a Telemetry in the configuration of a single component: as the Observer of an engine, or as the Tracer of a relay, an inbox, a
// lease store, a runner of sagas, a relay of webhooks or a retry client.
//
// The span of an operation is a child of the span in the context, such as the span of an HTTP server. The trace context of an operation's span is
// stored with the operation, so that the span of a replay can link to the span of the operation. Scopes, keys and tenants are never attributes of
// metrics; the span of an operation has the hash of the operation's key as an attribute.
package onceotel
