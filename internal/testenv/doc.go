// Package testenv starts private, throw-away servers for tests, benchmarks and
// torture runs: a PostgreSQL or a MariaDB of its own per test process, on a free
// loopback port, with real commits (fsync stays on), that can be crashed and
// restarted, fill a small disk, or have a clock that jumps, and a PgBouncer in front
// of the former.
//
// Nothing outlives the process that asked for it. Three things see to that, so
// that kill -9, a panic, a -timeout and Ctrl-C all leave a clean machine: Close,
// the kernel's parent-death signal, and a janitor process per server that
// removes the directory once its pipe to the test process is cut.
//
// Software that is missing is never passed over in silence: [Need] skips the
// test with the name of what is missing and how to install it, and fails it
// where the environment says CI=true.
//
// Servers are started on Linux only; elsewhere the package compiles and Need
// says so.
package testenv
