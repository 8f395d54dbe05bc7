// Package hold spreads numbered parts of one work over processes: each part is held by at most
// one of them, evenly, and moves within seconds when a process dies. A process that was stopped and wakes
// up may still believe that it holds a part: the database refuses it, because its fence is an old one.
package hold
