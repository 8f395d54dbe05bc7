// Package testenv starts private, throw-away servers for tests, benchmarks and torture runs. Each test process gets its own
// PostgreSQL or MariaDB on a free loopback port, with real commits (fsync stays on). The server can be crashed and
// restarted, can have a small disk that is full, or a clock that jumps. A PgBouncer can be put in front of a PostgreSQL.
//
// No server outlives the process that has started it. Three things ensure this even after kill -9, a panic, a -timeout or
// Ctrl-C: Close, the kernel's parent-death signal, and a janitor process for each server. The janitor removes the
// directory when its pipe to the test process is cut.
//
// Missing software is always reported. [Need] skips the test, and names what is missing and how to install it. If the
// environment has CI=true, Need fails the test.
//
// Servers are started on Linux only. On other systems the package compiles, and Need says
// so.
package testenv
