package once

import "github.com/oncelib/once/store"

// maxRecord is the size in bytes of a result and a request that no database takes: a value of
// SQLite ends at 10^9, a field and a message of PostgreSQL a little later. It leaves room for
// the rest of the row. What a database is set to may be far less.
const maxRecord = 1_000_000_000 - 1<<20

// fits returns an error if a record can be stored nowhere.
func fits(rec store.Record) error {
	n := int64(len(rec.Result.Body)) + int64(len(rec.Request))
	for _, f := range rec.Result.Header {
		n += int64(len(f.Name) + len(f.Value))
	}
	if n <= maxRecord {
		return nil
	}
	return &store.TooLargeError{Bytes: n, Max: maxRecord, Try: "a smaller result, such as the name of a file"}
}
