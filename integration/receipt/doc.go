// Package receipt proves what package gateway/receipt promises, on databases and endpoints, with services that are killed. The witness is
// the table of the service.
package receipt
