// Package hookrelay has webhooks delivered on all databases, beside endpoints that hang and fail, by relays that are killed and stopped.
package hookrelay
