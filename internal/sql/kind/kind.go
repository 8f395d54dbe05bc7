// Package kind classifies the errors of statements.
package kind

import "github.com/oncelib/once/store"

// In returns the kind of an error of a user's statement on s. If s is a [store.Classifier], s classifies the error, which may come
// from the driver. Otherwise In returns [store.KindOf].
func In(s any, err error) store.Kind {
	if c, ok := store.As[store.Classifier](s); ok {
		return c.Classify(err)
	}
	return store.KindOf(err)
}
