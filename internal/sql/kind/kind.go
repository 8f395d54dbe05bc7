// Package kind classifies the errors of statements.
package kind

import "github.com/oncelib/once/store"

// In returns the kind of an error of one of the user's statements on s, also of an error of the driver: the kind that a
// [store.Classifier] returns, or else [store.KindOf].
func In(s any, err error) store.Kind {
	if c, ok := store.As[store.Classifier](s); ok {
		return c.Classify(err)
	}
	return store.KindOf(err)
}
