// Package hold proves internal/hold on real databases and with real processes.
package hold
