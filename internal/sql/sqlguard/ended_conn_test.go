package sqlguard

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
)

// TestConnThatIsClosedMeanwhile: what a method of sql.Conn does with a connection that was closed after it had looked is an error of a broken
// connection, and no panic. Any other panic goes on.
func TestConnThatIsClosedMeanwhile(t *testing.T) {
	conn := new(sql.Conn) // open by its flag, and without a connection: as one that another goroutine is closing
	use := func() error { _, err := conn.ExecContext(t.Context(), "select 1"); return err }
	if err := OnConn(use); !errors.Is(err, driver.ErrBadConn) {
		t.Error(err)
	}
	Drop(conn)
	mine := errors.New("mine")
	if err := OnConn(func() error { return mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = OnConn(func() error { panic("mine") })
}
