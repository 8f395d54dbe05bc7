// Package gateway puts idempotency keys in front of a service that knows nothing of them: an [http.Handler] that forwards
// requests, at most once for each caller and key.
package gateway
