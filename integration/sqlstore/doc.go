// Package sqlstore tests store/sqlstore with real drivers, which the module of that
// package may not import.
package sqlstore
