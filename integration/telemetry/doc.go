// Package telemetry proves what packages gauge and onceprom promise, on real databases and with processes that are killed.
package telemetry
