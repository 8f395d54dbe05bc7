// Package declared reads the writes that a once.Batch declares, for packages that send these writes with their own change.
package declared

import "github.com/oncelib/once/store"

// Writes returns the writes of b, which is a *once.Batch. Package once sets Writes.
var Writes func(b any) []store.Statement
