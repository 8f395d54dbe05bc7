// Package gauge reads the present state from time to time: how many operations are unfinished, how old
// the oldest message of the outbox is, how many connections are in use.
//
//	watch := gauge.NewWatch(gauge.Config{}, gauge.Operations(store), gauge.Pool(store), box, inbox, engine)
//	go watch.Run(ctx)
//
// A [Source] may ask a database, and a scrape must not: it may come often, from several servers, and
// when the database is slow. So a [Watch] asks in the background, each source with a bound of time, and
// a scrape gets the last values. Packages onceprom and onceotel export them.
package gauge
