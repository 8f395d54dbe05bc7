// Package gateway adds idempotency keys to an HTTP service that does not support them, in whatever language the service is written. A [Gateway] is an
// [http.Handler] in front of the service. It forwards requests to the service, at most once for each caller and key.
//
// A gateway commits a record before it forwards a request, and commits the answer after that, with an engine of package lease. It cannot take part in
// the transaction of the service. So if the answer of the service is lost, the outcome is unknown, and a [Policy] says what to do. If the service
// writes a commit receipt, one row in its own transaction ([Receipts]), the outcome can always be found out.
//
// docs/gateway.md describes the guarantee, the kinds of outcomes of a forwarded request, and what happens if a process is killed.
package gateway
