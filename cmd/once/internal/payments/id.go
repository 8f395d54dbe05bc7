package payments

import (
	"crypto/rand"
	"strings"
	"time"
)

// newID returns the prefix and 130 random bits.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// now returns the time in microseconds. All times have the same length, so they can be sorted as text.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }
