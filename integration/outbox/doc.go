// Package outbox proves package outbox on every store that has transactions.
package outbox
