// Package gateway puts idempotency keys in front of a service that does not know them, whatever language it is written in: an [http.Handler] that
// forwards requests, at most once for each caller and key.
//
// It commits an intent before each forward and the answer after it, on an engine of package lease. It cannot join the transaction of the service:
// after a lost answer the outcome is unknown, and [Policy] says what to do then. With a commit receipt, one row that the service writes in its own
// transaction ([Receipts]), the outcome is always known.
//
// docs/gateway.md has the guarantee, the classes of forwards, and the effects of a killed process.
package gateway
