// Package payments is the reference service of once: charges, refunds and a
// ledger over HTTP, where every POST is safe to retry.
//
// The handlers know nothing of keys and retries. They get a transaction, write
// through it and return an answer; package oncehttp commits key, writes and
// answer together. The same handlers run on SQLite, PostgreSQL, MySQL and MariaDB.
//
//	db, err := payments.Open(ctx, "sqlite:payments.db")
//	...
//	http.ListenAndServe("127.0.0.1:8080", payments.NewServer(db, payments.Config{}))
package payments
