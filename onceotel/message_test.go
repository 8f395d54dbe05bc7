package onceotel_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	_ "modernc.org/sqlite"

	"github.com/oncelib/once"
	"github.com/oncelib/once/broker/httpbroker"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlstore"
)

// database returns a SQLite database with the tables of outbox and inbox.
func database(t *testing.T) *sqlstore.Store {
	t.Helper()
	db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "once.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, sqlstore.Migrate(t.Context(), db, outbox.Migrations, inbox.Migrations, deadletter.Migrations))
	_, err = db.ExecContext(t.Context(), "create table booking (id text primary key)")
	must(t, err)
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	return s
}

// delivered is an observer of a relay that tells when a message was delivered.
type delivered struct {
	outbox.Observer

	messages chan string
}

func (d delivered) Observe(ctx context.Context, e outbox.Event) {
	d.Observer.Observe(ctx, e)
	if e.Type == outbox.EventDelivered {
		d.messages <- e.Message.ID
	}
}

// TestMessageIsLinkedFromProducerToConsumer: an operation adds a message, a relay sends it by HTTP, and an inbox applies it. The
// spans of the delivery and of the handler link to the operation, and so does that of a second delivery.
func TestMessageIsLinkedFromProducerToConsumer(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{Broker: "http"}), database(t)
	engine := once.New(s, once.Config{Observer: tel})
	box := outbox.New(s, outbox.Config{Trace: onceotel.Trace})
	in := inbox.New(engine, inbox.Config{Consumer: "billing", Observer: inbox.Metrics(tel), Tracer: tel})
	book := func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		_, err := tx.ExecContext(ctx, "insert into booking (id) values (?)", m.ID)
		return err
	}
	received := make(chan message.Message, 10)
	receiver := httptest.NewServer(httpbroker.Receiver(in, func(ctx context.Context, tx *sql.Tx, m message.Message) error {
		received <- m
		return book(ctx, tx, m)
	}, httpbroker.ReceiverConfig{}))
	defer receiver.Close()

	_, err := once.Do(t.Context(), engine, refund, func(ctx context.Context, tx *sql.Tx) (string, error) {
		return "paid", box.Add(ctx, tx, message.Message{Topic: "refunds", Type: "refund.succeeded"})
	})
	must(t, err)

	told := delivered{outbox.Metrics(tel), make(chan string, 10)}
	relay := box.Relay(httpbroker.Publisher(receiver.URL, httpbroker.Config{}), outbox.RelayConfig{Observer: told, Tracer: tel})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	id := <-told.messages
	stop()
	must(t, <-ended)
	m := <-received
	if outcome, err := in.Handle(t.Context(), m, book); err != nil || outcome != inbox.Duplicate { // the broker delivers it again
		t.Fatal(outcome, err)
	}

	spans := tel.take()
	operation := named(t, spans, refund.Name)
	send := named(t, spans, "send refunds")
	var processes tracetest.SpanStubs
	for _, s := range spans {
		if s.Name == "process refunds" {
			processes = append(processes, s)
		}
	}
	if len(processes) != 2 {
		t.Fatalf("%d spans of the consumer", len(processes))
	}
	producer := onceotel.Trace(trace.ContextWithSpanContext(t.Context(), operation.SpanContext))
	for _, s := range append(processes, send) {
		if got := links(&s); !slices.Equal(got, []string{producer}) {
			t.Errorf("%s links to %q, want %q", s.Name, got, producer)
		}
		if got := text(s.Attributes, "messaging.message.id"); got != id {
			t.Errorf("%s is about message %s, want %s", s.Name, got, id)
		}
		if got := text(s.Attributes, "messaging.destination.name"); got != "refunds" {
			t.Errorf("%s is about topic %s", s.Name, got)
		}
		if s.Status.Code == codes.Error {
			t.Errorf("%s: %v", s.Name, s.Status)
		}
	}
	for attribute, want := range map[string]string{"messaging.operation.name": "send", "messaging.operation.type": "send", "messaging.system": "http", "once.attempt": "1"} {
		if got := text(send.Attributes, attribute); got != want {
			t.Errorf("%s of the delivery is %q, want %q", attribute, got, want)
		}
	}
	for attribute, want := range map[string]string{
		"messaging.operation.name": "process", "messaging.operation.type": "process", "messaging.system": "http", "messaging.consumer.group.name": "billing",
	} {
		for i, s := range processes { // of the handler, and of the second delivery
			if got := text(s.Attributes, attribute); got != want {
				t.Errorf("%s of delivery %d is %q, want %q", attribute, i+1, got, want)
			}
		}
	}
	if send.SpanKind != trace.SpanKindClient || processes[0].SpanKind != trace.SpanKindConsumer {
		t.Errorf("kinds %v and %v", send.SpanKind, processes[0].SpanKind)
	}
	applied := processes[0].Parent.SpanID()
	if !slices.ContainsFunc(spans, func(s tracetest.SpanStub) bool {
		return s.Name == "inbox billing" && s.SpanContext.SpanID() == applied
	}) {
		t.Error("the handler is not in the operation of the inbox")
	}
	if got := text(processes[1].Attributes, "once.outcome"); got != "duplicate" {
		t.Errorf("the second delivery is %q", got)
	}
	numbers := tel.numbers()
	for _, series := range []string{
		"once.outbox.deliveries{result=delivered,topic=refunds}", "once.inbox.messages{result=applied,source=once}", "once.inbox.messages{result=duplicate,source=once}",
	} {
		if numbers[series] != 1 {
			t.Errorf("%s is %v", series, numbers[series])
		}
	}
}

// TestFailedMessages: a delivery that fails, a handler that fails, and a dead letter.
func TestFailedMessages(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t, onceotel.Config{})
	refused := errors.New("refused")
	messages := []message.Message{{Topic: "refunds", ID: "1", Trace: original}, {Topic: "refunds", ID: "2", Trace: original}}
	_, end := tel.OutboxSpan(t.Context(), messages)
	clear(messages) // they are the publisher's
	end([]error{nil, refused})
	send := named(t, tel.take(), "send refunds")
	if send.Status.Code != codes.Error || len(send.Events) != 1 || text(send.Events[0].Attributes, "messaging.message.id") != "2" {
		t.Errorf("%v, %v", send.Status, send.Events)
	}
	if kind := text(send.Attributes, "error.type"); kind != "*errors.errorString" {
		t.Errorf("error.type %q", kind)
	}
	if got := links(&send); !slices.Equal(got, []string{original}) || text(send.Attributes, "messaging.batch.message_count") != "2" {
		t.Errorf("links to %q: %v", got, send.Attributes)
	}

	in := inbox.New(once.New(database(t), once.Config{Observer: once.Discard}), inbox.Config{Consumer: "billing", Observer: inbox.Metrics(tel), Tracer: tel})
	m := message.Message{ID: "1", Topic: "refunds", Type: "refund.succeeded", Trace: "no traceparent"}
	outcome, err := in.Handle(t.Context(), m, func(context.Context, *sql.Tx, message.Message) error { return retry.Permanent(refused) })
	if err != nil || outcome != inbox.DeadLettered {
		t.Fatal(outcome, err)
	}
	spans := tel.take()
	if len(spans) != 2 || spans[0].Status.Code != codes.Error || spans[1].Status.Code != codes.Error || text(spans[1].Attributes, "once.outcome") != "dead_lettered" || len(spans[0].Links) > 0 {
		t.Errorf("%+v", spans)
	}
	for _, s := range spans {
		if system, kind := text(s.Attributes, "messaging.system"), text(s.Attributes, "error.type"); system != "once" || kind == "" {
			t.Errorf("%s: messaging.system %q, error.type %q", s.Name, system, kind)
		}
	}
	if n := tel.numbers()["once.inbox.messages{result=dead_lettered,source=once}"]; n != 1 {
		t.Errorf("%v dead letters", n)
	}
}

// TestErrorTypeOfADelivery: it is one of few, and says what the destination has said of the message.
func TestErrorTypeOfADelivery(t *testing.T) {
	t.Parallel()
	tel, refused := newTelemetry(t, onceotel.Config{Broker: "rabbitmq"}), errors.New("refused")
	for want, errs := range map[string][]error{
		"":                    nil,
		"permanent":           {nil, retry.Permanent(refused), outbox.Unavailable(refused)},
		"unavailable":         {outbox.Unavailable(refused), retry.Permanent(refused), nil},
		"*errors.errorString": {fmt.Errorf("nats: %w", refused), nil, nil},
	} {
		_, end := tel.OutboxSpan(t.Context(), make([]message.Message, 3))
		end(errs)
		send := named(t, tel.take(), "send ")
		if got := text(send.Attributes, "error.type"); got != want || (send.Status.Code == codes.Error) != (want != "") || text(send.Attributes, "messaging.system") != "rabbitmq" {
			t.Errorf("%v: error.type %q, want %q: %v", errs, got, want, send.Attributes)
		}
	}
}

// spanOf is the context that a handler and a publisher have got.
type spanOf struct{ publisher, handler chan trace.SpanContext }

// TestSpansOfMessagesReachHandlerAndPublisher: both get the context of their span, and the span of a publisher that panics ends, with an error.
func TestSpansOfMessagesReachHandlerAndPublisher(t *testing.T) {
	t.Parallel()
	tel, s := newTelemetry(t, onceotel.Config{}), database(t)
	got := spanOf{make(chan trace.SpanContext, 10), make(chan trace.SpanContext, 10)}
	engine := once.New(s, once.Config{Observer: once.Discard})
	box, in := outbox.New(s, outbox.Config{}), inbox.New(engine, inbox.Config{Consumer: "billing", Tracer: tel})
	panics := true
	relay := box.Relay(outbox.PublisherFunc(func(ctx context.Context, list []message.Message) []error {
		if panics {
			panics = false
			panic("the first one")
		}
		got.publisher <- trace.SpanContextFromContext(ctx)
		_, err := in.Handle(ctx, message.Message{ID: list[0].ID, Topic: list[0].Topic, Type: list[0].Type}, func(ctx context.Context, _ *sql.Tx, _ message.Message) error {
			got.handler <- trace.SpanContextFromContext(ctx)
			return nil
		})
		return []error{err}
	}), outbox.RelayConfig{Tracer: tel, Observer: outbox.Observers(), Policy: &retry.Policy{Base: time.Millisecond}})
	_, err := once.Do(t.Context(), engine, refund, func(ctx context.Context, tx *sql.Tx) (string, error) {
		return "", box.Add(ctx, tx, message.Message{Topic: "refunds", Type: "refund.succeeded"})
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	publisher, handler := <-got.publisher, <-got.handler
	stop()
	must(t, <-ended)
	var failed, sent, processed int
	for _, s := range tel.take() {
		switch {
		case s.Name == "send refunds" && s.Status.Code == codes.Error:
			failed++
		case s.Name == "send refunds" && s.SpanContext.SpanID() == publisher.SpanID():
			sent++
		case s.Name == "process refunds" && s.SpanContext.SpanID() == handler.SpanID():
			processed++
		}
	}
	if failed != 1 || sent != 1 || processed != 1 {
		t.Errorf("%d failed, %d sent, %d processed", failed, sent, processed)
	}
}
