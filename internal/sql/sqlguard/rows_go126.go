//go:build !go1.27

package sqlguard

import "database/sql/driver"

func expose(r *rows) driver.Rows { return r }
