package integration

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteClock is a clock that SQLite takes for the time of day, in connections whose data
// source name says vfs=clock. It is a file system that differs from the usual one in
// nothing else: that of this process is out of reach, because Go asks the kernel itself.
type sqliteClock struct{ ahead atomic.Int64 } // in milliseconds

const sqliteClockName = "clock"

// register tells SQLite about the clock, once in a process.
func (c *sqliteClock) register() error {
	tls := libc.NewTLS()
	usual := sqlite3.Xsqlite3_vfs_find(tls, 0)
	vfs, err := libc.CString(sqliteClockName)
	if usual == 0 || err != nil {
		return fmt.Errorf("no file system to copy: %w", err)
	}
	own := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if own == 0 {
		return fmt.Errorf("no memory")
	}
	made := (*sqlite3.Tsqlite3_vfs)(at(own))
	*made = *(*sqlite3.Tsqlite3_vfs)(at(usual))
	made.FzName = vfs
	made.FxCurrentTimeInt64 = function(c.now)
	if code := sqlite3.Xsqlite3_vfs_register(tls, own, 0); code != 0 {
		return fmt.Errorf("registering: code %d", code)
	}
	return nil
}

// now is xCurrentTimeInt64: the Julian day in milliseconds.
func (c *sqliteClock) now(_ *libc.TLS, _, to uintptr) int32 {
	const epoch = 24405875 * 8640000
	*(*int64)(at(to)) = epoch + time.Now().UnixMilli() + c.ahead.Load()
	return 0
}

// at is an address outside of Go's memory.
func at(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// function is how translated C calls one of Go. It is kept for ever.
func function(f func(*libc.TLS, uintptr, uintptr) int32) uintptr {
	kept := &f
	keptFunctions = append(keptFunctions, kept)
	return *(*uintptr)(unsafe.Pointer(kept))
}

var keptFunctions []*func(*libc.TLS, uintptr, uintptr) int32
