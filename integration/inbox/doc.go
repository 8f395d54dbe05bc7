// Package inbox proves what package inbox promises, on every store.
package inbox
