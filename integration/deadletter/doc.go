// Package deadletter proves dead letters on every store, and redrives that are killed.
package deadletter
