// Package faultnet makes real loopback connections fail, and counts what goes
// over them.
//
// [Proxy] forwards the traffic between a client and a server. It can delay each direction, and cut
// a connection after a number of bytes or at a byte pattern. It can also lose an answer: then the
// server has committed, and the client does not know. A fault is armed while connections are open. A
// [Trigger] reports when the fault has struck. So a test waits for it instead of sleeping, and can
// refuse a run in which it never struck.
//
// [Wire] wraps the connections of a client inside its own process. It counts writes, reads and round
// trips, and calls a hook just before the N-th write, read or outgoing byte. A test that kills the
// process there for N = 1, 2, 3, ... has visited every point at which a crash can split a conversation.
package faultnet
