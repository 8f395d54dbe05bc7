// Package sqlitegroup orders the writers of one SQLite file: they write in the order in which they come. Operations that wait for
// each other can share one COMMIT.
package sqlitegroup

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"
)

// File is an SQLite file that the writers of one Store share.
type File struct {
	db          *sql.DB
	busyTimeout time.Duration
	line        *line
	groups      *groups     // nil: each operation has its own COMMIT
	relaxed     atomic.Bool // a Relaxed keeps its connection between its turns
}

// New returns the File of db. Its connections wait at most busyTimeout for the lock of the file.
func New(db *sql.DB, busyTimeout time.Duration) *File {
	return &File{db: db, busyTimeout: busyTimeout, line: &line{busyTimeout: busyTimeout}}
}

// LockWait returns how long an operation with this lock timeout waits for the file. 0 means that the operation has no lock
// timeout.
func (f *File) LockWait(lockTimeout time.Duration) time.Duration {
	if lockTimeout > 0 {
		return min(f.busyTimeout, lockTimeout)
	}
	return f.busyTimeout
}

// Take takes the turn to write, if it is free now. Then the caller must call [File.Next] at the end of the turn.
func (f *File) Take() bool { return f.line.take() }

// Wait waits for the turn to write, at most for patience. If the error is nil, the caller must call [File.Next] at the end of the
// turn.
func (f *File) Wait(ctx context.Context, patience time.Duration) error {
	return f.line.wait(ctx, patience, false)
}

// Next ends a turn that [File.Wait] or [File.Take] has granted.
func (f *File) Next() { f.line.next() }

// Waiting reports whether another writer of this process waits for its turn.
func (f *File) Waiting() bool { return f.line.waiting() }

// Groups reports whether operations share a COMMIT.
func (f *File) Groups() bool { return f.groups != nil }

// turn waits for a turn in which no group is open. The caller must call next at its end.
func (f *File) turn(ctx context.Context) (next func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g := f.groups
	if g == nil {
		return f.line.next, f.line.wait(ctx, f.busyTimeout, false)
	}
	if err := g.wait(ctx, f.busyTimeout, true); err != nil {
		return nil, err
	}
	if g.conn != nil { // the pool may have no other connection for the caller
		g.closeConn()
	}
	return g.next, nil
}
