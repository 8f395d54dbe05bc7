// Package restore restores databases from backups while the services that were called, brokers and clients go on, and follows what once doctor
// --after-restore says: each effect once, and no new message skipped.
package restore
