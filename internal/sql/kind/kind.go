// Package kind says what the errors of statements mean.
package kind

import "github.com/oncelib/once/store"

// In returns the kind of an error of one of the user's statements on s, which may be one of the driver: what a
// [store.Classifier] says, or else [store.KindOf].
func In(s any, err error) store.Kind {
	if c, ok := store.As[store.Classifier](s); ok {
		return c.Classify(err)
	}
	return store.KindOf(err)
}
