// Package canonical makes the same bytes of two request bodies with the same meaning. Its functions are for Preset.Body of package oncehttp, for
// clients that encode a body again for each try.
package canonical
