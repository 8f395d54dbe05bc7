//go:build go1.27

package sqlguard

import "database/sql/driver"

// scanningRows are rows of a driver that fills the caller's variables itself.
// database/sql prefers that to Next, so it must be offered only where the driver
// offers it.
type scanningRows struct {
	*rows

	scanner driver.RowsColumnScanner
}

var _ driver.RowsColumnScanner = scanningRows{}

func expose(r *rows) driver.Rows {
	if scanner, ok := r.Rows.(driver.RowsColumnScanner); ok {
		return scanningRows{r, scanner}
	}
	return r
}

// NextRow moves to the next row.
func (r scanningRows) NextRow() error { return r.note(r.scanner.NextRow()) }

// ScanColumn fills one variable. That a value does not fit is the caller's
// affair, as it is where database/sql does the filling, and no statement error.
func (r scanningRows) ScanColumn(ctx driver.ScanContext, index int, dest any) error {
	return r.scanner.ScanColumn(ctx, index, dest)
}
