//go:build go1.27

package sqlguard

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"testing"
)

func init() { //nolint:gochecknoinits // the interface does not exist before
	wrapped[reflect.TypeFor[driver.RowsColumnScanner]()] = reflect.TypeFor[scanningRows]()
}

func TestScanningRows(t *testing.T) {
	t.Parallel()
	base := &columnScanner{rows: 2}
	txn := new(Txn)
	r, ok := watch(t.Context(), base, txn, "SELECT 1", 0).(driver.RowsColumnScanner)
	if !ok {
		t.Fatal("the driver's scanner is hidden")
	}
	must(t, r.NextRow())
	var n int
	must(t, r.ScanColumn(driver.ScanContext{}, 0, &n))
	if n != 7 {
		t.Errorf("scanned %d", n)
	}
	if err := r.ScanColumn(driver.ScanContext{}, 0, new(chan int)); err == nil || txn.Err() != nil {
		t.Errorf("a value that does not fit: %v, and %v", err, txn.Err())
	}
	if err := r.NextRow(); !errors.Is(err, errDriver) || !errors.Is(txn.Err(), errDriver) {
		t.Errorf("a row that fails: %v, and %v", err, txn.Err())
	}
	if _, ok := watch(t.Context(), plainRows{}, txn, "SELECT 1", 0).(driver.RowsColumnScanner); ok {
		t.Error("a scanner out of nothing")
	}
}

type columnScanner struct {
	plainRows

	rows int
}

func (c *columnScanner) NextRow() error {
	switch c.rows--; c.rows {
	case 1:
		return nil
	case 0:
		return errDriver
	default:
		return io.EOF
	}
}

func (c *columnScanner) ScanColumn(ctx driver.ScanContext, _ int, dest any) error {
	if n, ok := dest.(*int); ok {
		*n = 7
		return nil
	}
	return sql.ConvertAssign(ctx, dest, int64(7))
}
