// Package canonical makes the same bytes of two request bodies that say the same: functions for
// Preset.Body of package oncehttp, for clients that encode a body anew for each try.
package canonical
