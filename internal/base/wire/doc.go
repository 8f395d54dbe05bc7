// Package wire reads and writes the data about an operation in a request and its answer, in the
// same words over HTTP and RPC: the key and its principal, the number of the attempt,
// the moment of the first one, how long the client waits, its trace, the state of the operation,
// and for how long its answer is replayed. Each transport uses it; no transport uses another
// one.
package wire
