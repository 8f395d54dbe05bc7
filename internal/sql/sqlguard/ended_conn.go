package sqlguard

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"runtime"
	"strings"
)

// OnConn runs fn, which uses a connection whose transaction may have ended with its context.
//
// The pool then closes the connection in a goroutine of its own. A method of [sql.Conn] first looks whether the connection is open and
// then uses it, without a lock around both (Go 1.25): if it is closed in between, the method panics. That would end the process of
// a service because a caller has gone away. fn has met a broken connection, and OnConn returns that error.
func OnConn(fn func() error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		nothing, is := r.(runtime.Error)
		if !is || !strings.Contains(nothing.Error(), "nil pointer") { // another bug, which is not hidden
			panic(r)
		}
		err = fmt.Errorf("sqlguard: %w: the connection was closed by another goroutine: %w", driver.ErrBadConn, nothing)
	}()
	return fn()
}

// Drop keeps a connection from going back into its pool.
func Drop(conn *sql.Conn) {
	_ = OnConn(func() error { return conn.Raw(func(any) error { return driver.ErrBadConn }) })
}
