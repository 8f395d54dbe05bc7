package onceotel_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store/sqlstore"
)

// A refund adds an event, a relay sends it, and an inbox applies it. (Here the relay and the inbox are one process.)
func ExampleTelemetry_OutboxSpan() {
	check := func(err error) {
		if err != nil {
			log.Panic(err)
		}
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "once")
	check(err)
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(dir, "payments.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	check(err)
	defer db.Close()
	check(sqlstore.Migrate(ctx, db, outbox.Migrations, inbox.Migrations, deadletter.Migrations))
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	check(err)
	spans := tracetest.NewInMemoryExporter()
	tp := trace.NewTracerProvider(trace.WithSyncer(spans))
	applied := make(chan message.Message, 1)
	book := func(_ context.Context, _ *sql.Tx, m message.Message) error { applied <- m; return nil }

	tel, err := onceotel.New(onceotel.Config{TracerProvider: tp, Broker: "nats"})
	check(err)
	engine := once.New(s, once.Config{Observer: tel})

	// The producer: its messages carry the trace context of the operation.
	box := outbox.New(s, outbox.Config{Trace: onceotel.Trace})
	refund := func(ctx context.Context, tx *sql.Tx) (string, error) {
		return "re_1", box.Add(ctx, tx, message.Message{Topic: "refunds", Type: "refund.succeeded"})
	}

	// The consumer: a span for each message.
	in := inbox.New(engine, inbox.Config{Consumer: "billing", Observer: inbox.Metrics(tel), Tracer: tel})

	// The relay: a span for each delivery.
	publisher := outbox.PublisherFunc(func(ctx context.Context, messages []message.Message) []error {
		errs := make([]error, len(messages)) // your publisher is that of package natsbroker, say
		for i, m := range messages {
			_, errs[i] = in.Handle(ctx, message.Message{ID: m.ID, Topic: m.Topic, Type: m.Type, Trace: m.Trace}, book)
		}
		return errs
	})
	relay := box.Relay(publisher, outbox.RelayConfig{Observer: outbox.Metrics(tel), Tracer: tel})

	_, err = once.Do(ctx, engine, once.Operation{Scope: "acme", Key: "8e03978e", Name: "POST /refunds"}, refund)
	check(err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(running) }()
	<-applied
	stop()
	check(<-ended)
	for _, s := range spans.GetSpans() {
		fmt.Println(s.SpanKind, s.Name, len(s.Links), "links")
	}
	// Output:
	// internal POST /refunds 0 links
	// consumer process refunds 1 links
	// internal inbox billing 0 links
	// client send refunds 1 links
}
