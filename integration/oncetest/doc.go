// Package oncetest proves package oncetest on the handlers of strangers: each has one bug that must be found, or none.
package oncetest
