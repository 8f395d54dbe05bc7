// Package wire reads and writes the data about an operation in a request and its answer: the key and its principal, the number
// of the attempt, the time of the first attempt, how long the client waits, the trace, the state of the operation, and how
// long its answer is replayed. HTTP and RPC use the same words for this data. Each transport uses this package, and no
// transport uses another transport.
package wire
