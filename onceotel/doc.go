// Package onceotel shows operations, their retries and their messages in OpenTelemetry: as spans, and as the same
// instruments that package onceprom has.
//
//	tel, err := onceotel.New(onceotel.Config{TracerProvider: tp, MeterProvider: mp, Broker: "nats"})
//	all := telemetry.Telemetry{Logger: log, Metrics: tel, Tracer: tel} // its methods fill the configuration of every part
//	engine := once.New(s, all.Engine(once.Config{}))
//
// It can be set part by part, too: it is the Observer of an engine, and the Tracer of a relay, an inbox, a lease store, a runner of sagas,
// a relay of webhooks and a retry client.
//
// A span of an operation is a child of the span in the context, such as the server's. Its trace context is stored with the
// operation, and a replay links to it. Scope, key and tenant are in no instrument; a span has the hash of the key.
package onceotel
