// Package onceotel shows operations, their retries and their messages in OpenTelemetry: as spans, and as the same
// instruments that package onceprom has.
//
//	tel, err := onceotel.New(onceotel.Config{TracerProvider: tp, MeterProvider: mp})
//	engine := once.New(s, once.Config{Observer: once.Observers(tel, once.Log(log))})
//	box := outbox.New(s, outbox.Config{Trace: onceotel.Trace})
//	relay := box.Relay(tel.Publisher(publisher, "nats"), outbox.RelayConfig{Observer: outbox.Metrics(tel)})
//	in := inbox.New(engine, inbox.Config{Consumer: "billing", Observer: tel.Inbox("nats")})
//	handle := onceotel.Handler(tel, in, apply, "nats") // for in.Handle, in.Run and natsbroker.Consume
//	runner := saga.NewRunner(s, saga.Config{Tracer: tel, Observer: saga.Observers(saga.Metrics(tel), saga.Log(log))}, orders)
//	jobs := once.New(lease.New(s, lease.Config{Tracer: tel}), once.Config{Observer: tel})
//	client := &http.Client{Transport: tel.Transport(&retryhttp.Transport{Keys: true})}
//
// A span of an operation is a child of the span in the context: that of the server. Its trace context is stored with the
// operation, and a replay links to it. Scope, key and tenant are in no instrument; a span has the hash of the key.
package onceotel
