// Package wire reads and writes what a request and its answer say about an operation, in the
// same words over HTTP and RPC: the key and whom it belongs to, the number of the attempt,
// the moment of the first one, how long the client waits, its trace, what has become of the operation,
// and for how long its answer is replayed. Each transport uses it; no transport uses another
// one.
package wire
