// Package gauge reads the current state of a service at regular intervals: how many operations are unfinished, how old the oldest message of the
// outbox is, how many connections are in use.
//
//	watch := gauge.NewWatch(gauge.Config{}, gauge.Operations(store), gauge.Pool(store), box, inbox, engine)
//	go watch.Run(ctx)
//
// A [Source] may query a database. A scrape (a request of Prometheus for metrics) must not query a database, because scrapes may come often, from
// several servers, and while the database is slow. So a [Watch] calls each source in the background, with a time limit, and a scrape gets the last
// values of the sources. Packages onceprom and onceotel export the last values of a Watch.
package gauge
