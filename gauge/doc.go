// Package gauge reads the current state at regular intervals: how many operations are unfinished, how old the oldest message of the outbox is, how
// many connections are in use.
//
//	watch := gauge.NewWatch(gauge.Config{}, gauge.Operations(store), gauge.Pool(store), box, inbox, engine)
//	go watch.Run(ctx)
//
// A [Source] may query a database. A scrape of metrics must not do that, because scrapes may come often, from several servers, and while the database
// is slow. So a [Watch] calls each source in the background, with a time limit, and a scrape gets the last values. Packages onceprom and onceotel
// export these values.
package gauge
