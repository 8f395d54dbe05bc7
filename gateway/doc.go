// Package gateway adds idempotency keys to an HTTP service that does not support idempotency keys. The service
// can be written in any language. A [Gateway] is an [http.Handler] in front of the service. The Gateway
// forwards requests to the service, at most once for each caller and key.
//
// A gateway uses an engine of package lease: the gateway commits a record of a request before it forwards the
// request, and commits the answer of the service when it has received the answer. A gateway cannot take part in
// the transaction of the service. So if the answer of the service is lost, the outcome is unknown, and a [Policy]
// says what the gateway does. If the service inserts a commit receipt (a row which proves that the transaction
// has committed) in its own transaction, the gateway can always find out the outcome: see [Receipts].
//
// docs/gateway.md describes the guarantee, the kinds of outcomes of a forwarded request, and what happens if a process is killed.
package gateway
