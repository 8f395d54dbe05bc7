// Package lease proves what package lease promises, with processes that are killed and stopped, and with services that are called over
// HTTP and note each effect.
package lease
