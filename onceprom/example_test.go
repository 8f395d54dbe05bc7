package onceprom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/store/memstore"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	watch := gauge.NewWatch(gauge.Config{}) // and what there is: the store, an outbox, an inbox, a limiter
	go func() { _ = watch.Run(ctx) }()

	metrics := onceprom.New(onceprom.Config{Gauges: watch})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	engine := once.New(memstore.New(), once.Config{Observer: metrics})
	for range 3 {
		_, err := once.Do(ctx, engine, once.Operation{Name: "POST /refunds", Scope: "tenant 7", Key: "refund-42"},
			func(_ context.Context, tx *memstore.Tx) (string, error) { return "refunded", tx.Insert("refund", "42") })
		if err != nil {
			fmt.Println(err)
		}
	}

	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, _ := io.ReadAll(answer.Body)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "once_operations_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// once_operations_total{decision="db_hit",effect="applied",operation="POST /refunds"} 2
	// once_operations_total{decision="new_execution",effect="applied",operation="POST /refunds"} 1
}
