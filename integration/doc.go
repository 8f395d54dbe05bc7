// Package integration proves, by killing real processes, that a key, its business
// write and its result are one commit.
//
// Everything is in the tests. They re-execute their own binary as a child, which
// performs one operation on a real database and is killed with SIGKILL at point N
// of it: a named point, a socket write or read, an outgoing byte, a system call.
// N = 1, 2, 3, ... until the child survives, so that a loop ends by itself and has
// left nothing out. After each death the parent repeats the operation and demands
// one effect, one key, one response, and that no acknowledged answer is missing.
//
// Others let operations meet a database whose disk is full but for N pages, whose N-th
// system call fails with EIO, or whose clock steps by an hour.
//
// A loop with fewer points than its floor fails, and so does a run which has never
// met the cases that matter (committed but not acknowledged, not committed,
// acknowledged): a test that has met nothing proves nothing.
//
// The short form runs with the other tests. ONCE_TORTURE=long visits every byte
// and storms with 10,000 keys. A failure prints what runs its point again.
package integration
