// Package hold proves internal/sql/hold on real databases and with real processes.
package hold
