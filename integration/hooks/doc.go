// Package hooks has webhooks sent on all databases, by processes that are killed and stopped.
package hooks
