// Package gateway puts idempotency keys in front of a service that knows nothing of them, in whatever language it is written: an
// [http.Handler] that forwards requests, at most once for each caller and key.
//
// It commits an intent before each forward and the answer after it, on an engine of package lease. It cannot join the transaction of the
// service: an answer that is lost leaves the outcome unknown, and [Policy] says what is done then. A commit receipt, one row that the
// service writes in its own transaction ([Receipts]), ends that.
//
// docs/gateway.md has the guarantee, the classes of forwards, and what follows when a process is killed.
package gateway
