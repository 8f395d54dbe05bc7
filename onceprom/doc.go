// Package onceprom counts for Prometheus what the engine, the outbox, the inbox, sagas and the retry client do.
//
//	metrics := onceprom.New(onceprom.Config{Gauges: watch})
//	prometheus.MustRegister(metrics)
//	engine := once.New(store, once.Config{Observer: once.Observers(metrics, once.Log(logger))})
//	relay := box.Relay(publisher, outbox.RelayConfig{Observer: outbox.Metrics(metrics)}) // and inbox.Metrics, saga.Metrics, retry.Metrics
//
// The instruments stand in docs/observability.md. No key, scope or tenant is a label, and a label has at
// most 100 values; all that come later are counted as "other". Histograms have classic buckets, and native ones for a server
// that scrapes these.
package onceprom
