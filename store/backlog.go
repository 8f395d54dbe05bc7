package store

import "time"

// MaxBacklog is up to where a [Backlogger] counts: the number of what is more is this one.
const MaxBacklog = 100_000

// Backlog is what a store has beside the operations that are done and kept.
type Backlog struct {
	Running Count // an owner has them, or none has: see Record.LeaseExpired. Their age is the time since they were first written
	Unknown Count // their outcome is not known. Their age is the time since they were first written
	Expired Count // their retention is over, and they are not swept yet. Their age is the time since then
}

// Count is a number of operations and the age of the oldest of those that were counted, by the clock of the store.
type Count struct {
	Number int
	Oldest time.Duration // 0 if there are none
}
