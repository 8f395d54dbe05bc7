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
// The pool then closes the connection in another goroutine. A method of [sql.Conn] first checks whether the connection is
// open and then uses it, without a lock around both (Go 1.25). If the connection is closed in between, the method panics.
// This panic would end the whole process only because a caller has gone away. Instead, OnConn returns the error of a broken
// connection.
func OnConn(fn func() error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		nothing, is := r.(runtime.Error)
		if !is || !strings.Contains(nothing.Error(), "nil pointer") { // this is another bug, which must not be hidden
			panic(r)
		}
		err = fmt.Errorf("sqlguard: %w: the connection was closed by another goroutine: %w", driver.ErrBadConn, nothing)
	}()
	return fn()
}

// Drop prevents that a connection returns to its pool.
func Drop(conn *sql.Conn) {
	_ = OnConn(func() error { return conn.Raw(func(any) error { return driver.ErrBadConn }) })
}
