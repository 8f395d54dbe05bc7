// Package property drives the production engine through random histories of
// operations, and compares what happens with a small model of what may happen.
//
// Everything is in the tests. Callers on several nodes meet on a few operations of one
// store in memory. Each call of the store, and each handler, waits until the test has
// chosen whether it fails and how: rapid draws every choice from one seed, and
// synctest makes the time, so that a seed is one history. Whatever a call was told is
// held against the store after every step, for ever.
//
// What the store says late is late here, too: a COMMIT whose answer was lost may be
// applied when its caller has long been answered, and a transaction whose connection
// is gone holds its claim until the server notices.
//
// A run that has not met the cases that matter fails. ONCE_TORTURE=long runs for
// minutes. A failure prints its seed.
package property
