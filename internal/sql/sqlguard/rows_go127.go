//go:build go1.27

package sqlguard

import "database/sql/driver"

// scanningRows are rows of a driver that fills the caller's variables itself. database/sql prefers this method to Next, so it may
// exist only if the driver has it.
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

// ScanColumn fills one variable. A value that does not fit is a mistake of the caller, and no error of the statement, in the same
// way as when database/sql fills the variable.
func (r scanningRows) ScanColumn(ctx driver.ScanContext, index int, dest any) error {
	return r.scanner.ScanColumn(ctx, index, dest)
}
