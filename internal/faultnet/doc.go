// Package faultnet makes real loopback connections fail, and counts what goes
// over them.
//
// [Proxy] forwards the traffic between a client and a server. It can delay each direction, cut
// a connection after a number of bytes or at a byte pattern, and lose answers:
// the case in which the server has committed and the client does not know. A
// fault is armed while connections are open. A [Trigger] reports when
// it has struck, so that a test waits for it instead of sleeping, and can refuse
// a run in which it never struck.
//
// [Wire] wraps the connections of a client inside its own process. It counts
// writes, reads and round trips, and calls a hook just before the N-th write,
// read or outgoing byte: kill the process there for N = 1, 2, 3, ... and every
// point at which a crash can split a conversation has been visited.
package faultnet
