package onceotel_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceotel"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
)

// A replay links to the span of the call that has executed the operation.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter() // yours is otlptracehttp, say
	tp := trace.NewTracerProvider(trace.WithSyncer(spans))

	tel, err := onceotel.New(onceotel.Config{TracerProvider: tp})
	if err != nil {
		log.Panic(err)
	}
	engine := once.New(memstore.New(), once.Config{Observer: once.Observers(tel, once.Discard)})

	op := once.Operation{Scope: "acme POST /refunds", Key: "8e03978e", Name: "POST /refunds"}
	for range 2 {
		_, err = once.Do(ctx, engine, op, func(_ context.Context, tx *memstore.Tx) (string, error) {
			return "re_1", tx.Put("re_1", "1000")
		})
		if err != nil {
			log.Panic(err)
		}
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, text(s.Attributes, "once.decision"), len(s.Links), "links")
	}
	// Output:
	// POST /refunds new_execution 0 links
	// POST /refunds db_hit 1 links
}

// A client that retries has a span for each call, and one for each attempt.
func ExampleTelemetry_CallSpan() {
	tel, err := onceotel.New(onceotel.Config{})
	if err != nil {
		log.Panic(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Keys: true, Tracer: tel}}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, http.NoBody) // in a handler: its ctx
	if err != nil {
		log.Panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		log.Panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output:
	// 404
}

// Work that is no request is retried with the same spans.
func ExampleTelemetry_Do() {
	tel, err := onceotel.New(onceotel.Config{})
	if err != nil {
		log.Panic(err)
	}
	err = tel.Do(context.Background(), "send mail", &retry.Policy{}, func(context.Context, int) error { return nil })
	fmt.Println(err)
	// Output:
	// <nil>
}
