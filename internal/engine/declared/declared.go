// Package declared reads what a once.Batch declares, for packages that send it with a change of their own.
package declared

import "github.com/oncelib/once/store"

// Writes returns the writes of b, a *once.Batch. Package once sets it.
var Writes func(b any) []store.Statement
