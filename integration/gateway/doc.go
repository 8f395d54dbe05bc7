// Package gateway proves what package gateway promises, with a service in a process of its own that is killed, with gateways that are killed
// and stopped, and with the table of the service as the witness.
package gateway
