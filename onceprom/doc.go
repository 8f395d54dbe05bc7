// Package onceprom exports metrics of the engine, the outbox, the inbox, sagas and the retry client to Prometheus.
//
//	metrics := onceprom.New(onceprom.Config{Gauges: watch})
//	prometheus.MustRegister(metrics)
//	tel := telemetry.Telemetry{Logger: logger, Metrics: metrics} // its methods fill the configuration of every part
//	engine := once.New(store, tel.Engine(once.Config{}))
//
// docs/observability.md lists the metrics. Keys, scopes and tenants are never labels. Each label has at most 100 different values; if a label gets
// further values, they are counted as the value "other". Histograms have classic buckets, and also native buckets for servers that scrape native
// histograms.
package onceprom
