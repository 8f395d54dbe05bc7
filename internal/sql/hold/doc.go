// Package hold distributes the numbered parts of some work over processes. At most one process holds a part. The parts are
// distributed evenly, and move within seconds after the death of a process. A process that was stopped and continues may
// still assume that it holds a part. The database refuses its statements, because its fence is old.
package hold
