// Package onceprom counts the work of the engine, the outbox, the inbox, sagas and the retry client for Prometheus.
//
//	metrics := onceprom.New(onceprom.Config{Gauges: watch})
//	prometheus.MustRegister(metrics)
//	tel := telemetry.Telemetry{Logger: logger, Metrics: metrics} // its methods fill the configuration of every part
//	engine := once.New(store, tel.Engine(once.Config{}))
//
// docs/observability.md lists the instruments. No key, scope or tenant is a label, and a label has at
// most 100 values; all later values are counted as "other". Histograms have classic buckets, and native ones for a server
// that scrapes these.
package onceprom
